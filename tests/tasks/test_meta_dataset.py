"""Meta-Dataset's rule by its equations and distributions."""

from __future__ import annotations

import math

import numpy as np

from handful.tasks import random
from handful.tasks.meta_dataset import MetaDataset
from made.drawn import UNEQUAL, by_class, uniform
from made.sized import sized


def test_sizes_follow_the_papers_equations_to_the_image():
    rule = MetaDataset(sized(UNEQUAL).whole)
    for number, episode in enumerate(rule.draw_block(5, 0, 80)):
        own, shots, queries = by_class(episode, rule)
        sizes = [UNEQUAL[c] for c in own]
        q = min(10, min(n // 2 for n in sizes))
        beta = 1 - float(random.uniform(random.words(5, "shape", np.asarray([number]), 4))[0, 2])
        total = min(500, sum(math.ceil(beta * min(100, n - q)) for n in sizes))
        alpha = [
            math.log(0.5) + math.log(4) * float(u)
            for u in random.uniform(random.words(5, "shots", np.asarray([number]), len(own)))[0]
        ]
        weight = [n * math.exp(a) for n, a in zip(sizes, alpha, strict=True)]
        wanted = [min(int(w / sum(weight) * (total - len(own))) + 1, n - q) for w, n in zip(weight, sizes, strict=True)]
        assert queries == [q] * len(own) and shots == wanted
        assert len(episode.support) <= 500 and 0 < beta <= 1


def test_every_image_belongs_to_its_class_and_is_used_once():
    rule = MetaDataset(sized(UNEQUAL).whole)
    for episode in rule.draw_block(2, 0, 40):
        own, _, _ = by_class(episode, rule)
        members = rule.part.members
        for images, labels in (
            (episode.support, episode.support_labels),
            (episode.query, episode.query_labels),
        ):
            for image, label in zip(images, labels, strict=True):
                assert image in members[own[label]]
        both = np.concatenate([episode.support, episode.query])
        assert len(set(both.tolist())) == len(both)


def test_ways_classes_and_images_are_uniform():
    rule = MetaDataset(sized([12] * 60).whole)
    episodes = rule.draw_block(0, 0, 2300)
    assert uniform(np.bincount([e.shape[0] for e in episodes], minlength=51)[5:])
    drawn = np.zeros(60)
    images = np.zeros(len(rule.part))
    for e in episodes[:1000]:
        drawn[by_class(e, rule)[0]] += 1
        images[e.query] += 1
    # Drawn without replacement, counts vary less than a multinomial's: the test is on the safe side.
    assert uniform(drawn) and uniform(images)


def test_with_equal_classes_the_support_is_uniform_over_its_multiples():
    """Twelve images, six queries: S = ways * ceil(6 b), so a class has about ceil(6 b) shots, b uniform in (0, 1]."""
    rule = MetaDataset(sized([12] * 20).whole, ways=5)
    beta = 1 - random.uniform(random.words(9, "shape", np.arange(3000), 4))[:, 2]
    assert uniform(np.bincount(np.ceil(6 * beta).astype(int), minlength=7)[1:])
    for e, b in zip(rule.draw_block(9, 0, 300), beta, strict=False):
        assert 5 <= len(e.support) <= 5 * math.ceil(6 * b)


def test_draws_do_not_depend_on_the_block():
    part = sized(UNEQUAL, groups=[f"a{i % 9}" for i in range(70)], datasets=[f"d{i % 2}" for i in range(70)]).whole
    for rule in (MetaDataset(part), MetaDataset(part, group="alphabet", ways=(2, 5), flat=0.3, datasets="each")):
        block = rule.draw_block(4, 0, 150)
        for number in (0, 63, 64, 149):
            assert block[number].as_dict() == rule.draw(4, number).as_dict()
        assert block[70].as_dict() == rule.draw_block(4, 67, 90)[3].as_dict()


def test_a_chunk_that_is_too_large_at_once_is_drawn_in_halves(monkeypatch):
    rule = MetaDataset(sized(UNEQUAL).whole)
    before = [e.as_dict() for e in rule.draw_block(1, 0, 20)]
    monkeypatch.setattr("handful.tasks.meta_dataset.LANES", 5000)
    assert [e.as_dict() for e in rule.draw_block(1, 0, 20)] == before
