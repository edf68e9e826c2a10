"""Built splits keep every promise, the bound is never beaten by brute force, and shortages are named."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from handful.audits.zero_shot.builder import Filter, build, find_branch, pick_images
from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput, Infeasible
from handful.metrics.structure import relatives, structural_ratio
from made.graphs import random_dag


@pytest.mark.parametrize("seed", range(12))
def test_no_set_beats_the_bound_and_the_search_is_near_the_best(seed: int) -> None:
    tax, _ = random_dag(40, seed)
    rng = np.random.default_rng(seed)
    train = tax.ids[rng.choice(40, 3, replace=False)].tolist()
    pool = [c for c in tax.ids.tolist() if c not in train and not relatives(tax, train, [c]).in_train.any()][-13:]
    capped = {str(tax.ids[3]): 2} if seed % 2 else {}
    under = set(tax.ids[np.append(tax.descendants([3]), 3)])
    values = []
    for some in itertools.combinations(pool, 4):
        if not relatives(tax, train, some).in_test.any() and (not capped or len(under & set(some)) <= 2):
            values.append(structural_ratio(tax, train, some).value)
    if not values:
        with pytest.raises(Infeasible):
            build(tax, train, pool, 4, cap=capped)
        return
    made = build(tax, train, pool, 4, cap=capped)
    assert max(values) <= made.bound + 1e-9
    assert made.ratio <= max(values) + 1e-9 and made.ratio >= 0.8 * max(values)


def test_steps_are_counted_in_order_and_promises_kept() -> None:
    tax, _ = random_dag(400, 7)
    leaves = tax.ids[np.setdiff1d(np.arange(400), tax.parent)]
    train = leaves[:10].tolist()
    names = tax.ids.tolist()
    common = Filter("frequency", frozenset(names[:350]))
    manual = Filter.dropping("scale", names, names[100:110])
    branch = str(tax.ids[20])
    below = set(tax.ids[np.append(tax.descendants([20]), 20)])
    limit = str(tax.ids[30])
    inside = set(tax.ids[np.append(tax.descendants([30]), 30)])
    twins = [names[333], names[345]]
    made = build(tax, train, names, 20, filters=[common, manual], exclude=[branch], cap={limit: 2}, exclusive=[twins])
    assert [s.name for s in made.steps] == [
        "not a training class", "frequency", "scale", f"not under {branch}", "no relative in train"
    ]  # fmt: skip
    assert all(a.after == b.before for a, b in itertools.pairwise(made.steps))
    assert made.steps[0].before == 400 and made.steps[0].after == 390 and made.steps[2].manual
    chosen = set(made.classes)
    assert len(chosen) == 20 and not chosen & below and len(chosen & inside) <= 2 and len(chosen & set(twins)) <= 1
    assert not chosen & set(names[350:]) and not chosen & set(names[100:110])
    assert relatives(tax, train, made.classes).consistent
    assert made.ratio == pytest.approx(structural_ratio(tax, train, made.classes).value) and made.ratio <= made.bound
    assert "scale (manual)" in str(made) and f"R = {made.ratio:.3f}" in str(made)


def test_shortages_and_unknown_branches_are_named(toy: Taxonomy) -> None:
    with pytest.raises(Infeasible, match="2 candidates are left after the filters, 3 are asked for"):
        build(toy, ["horse", "tv"], ["zebra", "laptop"], 3)
    with pytest.raises(Infeasible, match="fits 2 classes together"):
        build(toy, ["tv"], ["equine", "zebra", "horse"], 3)
    with pytest.raises(BadInput, match="no branch is called 'unicorn'"):
        build(toy, ["horse", "tv"], ["zebra", "laptop"], 2, exclude=["unicorn"])
    with pytest.raises(BadInput, match="two or more"):
        build(toy, ["horse"], ["zebra", "laptop"], 1)


def test_five_hundred_of_two_thousand_imagenet_classes(nouns: Taxonomy, splits: dict[str, list[str]]) -> None:
    pool = np.random.default_rng(0).choice(splits["all"], 2000, replace=False).tolist()
    made = build(nouns, splits["train"], pool, 500, exclude=["person"], cap={"plant": 150})
    assert len(made.classes) == 500 and relatives(nouns, splits["train"], made.classes).consistent
    assert made.gap < 0.05
    plants = nouns.descendants(np.array([find_branch(nouns, "plant")]))
    assert np.isin(nouns.index(made.classes), plants).sum() <= 150


def test_every_class_gets_the_same_number_of_good_images() -> None:
    labels = np.repeat(["a", "b"], [6, 9])
    good = np.arange(15) % 3 > 0
    rows = pick_images(labels, ["b", "a"], each=4, good=good, seed=2)
    assert labels[rows].tolist() == ["b"] * 4 + ["a"] * 4 and good[rows].all() and len(set(rows)) == 8
    assert np.array_equal(rows, pick_images(labels, ["b", "a"], each=4, good=good, seed=2))
    with pytest.raises(Infeasible, match="a has 4 images of quality, 5 are asked for"):
        pick_images(labels, ["b", "a"], each=5, good=good)
