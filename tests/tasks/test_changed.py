"""Rules that change another rule's tasks: strangers, wrong labels, unequal classes, confusable classes."""

from __future__ import annotations

import numpy as np
import pytest

import handful as hf
from handful.errors import BadInput, Infeasible, Mismatch
from handful.tasks import Clustering, Hard, LongTail, Noisy, NWay, Strangers
from handful.tasks.episode import NONE
from made.benches import coloured, small

PART = small().part("test")
INNER = NWay(PART, 3, 5, 6)


def test_strangers_are_the_share_asked_for_and_of_no_class_of_the_task():
    names = PART.class_names
    of_image = dict(zip(PART.rows.tolist(), PART.classes.tolist(), strict=True))
    for share, wanted in ((0.5, 18), (0.25, 6), (0.1, 2)):
        for e in Strangers(of=INNER, share=share).draw_block(3, 0, 20):
            away = e.query_labels == NONE
            assert away.sum() == wanted and (~away).sum() == 18
            assert not {names[of_image[i]] for i in e.query[away].tolist()} & set(e.names[0])
            assert [names[of_image[i]] for i in e.query[~away].tolist()] == [
                e.names[0][k] for k in e.query_labels[~away]
            ]


def test_the_known_part_of_a_task_with_strangers_is_the_task_inside():
    for plain, e in zip(INNER.draw_block(3, 0, 9), Strangers(of=INNER).draw_block(3, 0, 9), strict=True):
        known = e.query_labels != NONE
        assert set(e.query[known].tolist()) == set(plain.query.tolist())
        assert e.support.tolist() == plain.support.tolist() and e.seed == plain.seed


def test_strangers_come_from_so_many_classes_and_stay_in_their_data_set():
    source = small()
    kinds = source.table["dataset"].to_numpy().astype(str)
    from handful.tasks import AnyWay

    for e in Strangers(of=AnyWay(PART, (2, 2), (1, 3), 4), classes=1).draw_block(0, 0, 20):
        away = e.query[e.query_labels == NONE]
        assert len(set(source.table["kind"].to_numpy()[away].tolist())) == 1
        assert set(kinds[away]) == set(kinds[e.support])


def test_what_strangers_cannot_have_is_refused():
    with pytest.raises(Infeasible, match="no class beside"):
        Strangers(of=NWay(PART, PART.n_classes, 2, 2)).check()
    with pytest.raises(Infeasible, match="lower share"):
        Strangers(of=NWay(PART, 5, 2, 20), share=0.9, classes=1).check()
    with pytest.raises(BadInput, match="below 1"):
        Strangers(of=INNER, share=1.0)
    with pytest.raises(Mismatch, match="images and labels"):
        Strangers(of=Clustering(of=INNER))
    with pytest.raises(Mismatch, match="one label axis"):
        Noisy(of=hf.tasks.Pairs(coloured().part("test"), primitives=3))


@pytest.mark.parametrize("noise, wrong", [(0.0, 0), (0.2, 1), (0.4, 2), (0.5, 2), (0.6, 3)])
def test_so_many_labels_of_each_class_are_wrong_and_no_query_s(noise, wrong):
    for plain, e in zip(INNER.draw_block(1, 0, 20), Noisy(of=INNER, noise=noise).draw_block(1, 0, 20), strict=True):
        flipped = e.support_labels != plain.support_labels
        assert np.bincount(plain.support_labels[flipped], minlength=3).tolist() == [wrong] * 3
        assert e.side["wrong_labels"] == 3 * wrong
        assert e.query_labels.tolist() == plain.query_labels.tolist()


def test_symmetric_noise_goes_to_every_other_class_alike():
    to = np.zeros((3, 3))
    pairs = zip(INNER.draw_block(1, 0, 600), Noisy(of=INNER, noise=0.4).draw_block(1, 0, 600), strict=True)
    for plain, e in pairs:
        np.add.at(to, (plain.support_labels, e.support_labels), 1)
    assert (np.diag(to) == 1800).all()
    away = to[~np.eye(3, dtype=bool)]
    assert away.sum() == 3600 and np.abs(away - 600).max() < 100, "four standard deviations"


def matrix(tmp_path, near):
    np.save(tmp_path / "near.npy", near)
    return f"matrix:{tmp_path / 'near.npy'}"


def test_confusable_noise_goes_to_the_nearest_class_of_the_task(tmp_path):
    n = PART.n_classes
    place = np.arange(n)
    near = matrix(tmp_path, -np.abs(place[:, None] - place[None]).astype(float))
    order = {name: i for i, name in enumerate(PART.class_names)}
    rule = Noisy(of=INNER, noise=0.4, kind="confusable", near=near)
    for plain, e in zip(INNER.draw_block(1, 0, 20), rule.draw_block(1, 0, 20), strict=True):
        at = np.asarray([order[name] for name in e.names[0]])
        for true, given in zip(plain.support_labels, e.support_labels, strict=True):
            if true != given:
                gaps = np.abs(at - at[true]).astype(float)
                gaps[true] = np.inf
                assert gaps[given] == gaps.min()


def test_a_long_tail_falls_from_all_shots_to_one_ratio_th():
    rule = LongTail(of=NWay(PART, 3, 10, 4), ratio=10)
    for e in rule.draw_block(0, 0, 20):
        assert sorted(np.bincount(e.support_labels).tolist()) == [1, 3, 10], "10 / 10^(1/2) = 3.16"
        assert np.bincount(e.query_labels).tolist() == [4, 4, 4]
    largest = [int(np.bincount(e.support_labels).argmax()) for e in rule.draw_block(0, 0, 300)]
    assert min(np.bincount(largest, minlength=3)) > 60, "any class may be the large one"
    even = LongTail(of=INNER, ratio=1).draw(0, 3)
    assert even.support.tolist() == INNER.draw(0, 3).support.tolist()


def test_hard_tasks_have_near_classes_and_difficulty_zero_any(tmp_path):
    n = PART.n_classes
    place = np.arange(n)
    near = matrix(tmp_path, -np.abs(place[:, None] - place[None]).astype(float))
    order = {name: i for i, name in enumerate(PART.class_names)}

    def spread(difficulty):
        rule = Hard(PART, ways=3, shots=2, queries=3, difficulty=difficulty, near=near)
        return np.mean([np.ptp([order[name] for name in e.names[0]]) for e in rule.draw_block(0, 0, 200)])

    assert spread(1.0) < 2.5 < spread(0.5) < spread(0.0), "three neighbours on a line are two or three apart"
    seen = {name for e in Hard(PART, ways=3, difficulty=1.0, near=near).draw_block(0, 0, 200) for name in e.names[0]}
    assert seen == set(PART.class_names)


def test_nearness_by_words_by_a_tree_and_wrong_ones(tmp_path):
    from handful.tasks.nearness import nearness

    names = [name.split("/")[-1] for name in PART.class_names]
    words = tmp_path / "vectors.txt"
    words.write_text("".join(f"{name} {i} {i * i} 1\n" for i, name in enumerate(names)))
    tree = tmp_path / "tree.csv"
    edges = "".join(f"{name},{'second' if i % 2 else 'first'}\n" for i, name in enumerate(names))
    tree.write_text(f"{edges}first,all\nsecond,all\n")
    by_tree = nearness(PART, f"tree:{tree}")
    assert by_tree[0, 2] == -2 and by_tree[0, 1] == -4 and by_tree[0, 0] == 0
    assert nearness(PART, f"words:{words}").shape == by_tree.shape == nearness(PART, "pixels").shape
    np.save(tmp_path / "small.npy", np.eye(2))
    (tmp_path / "odd.npy").write_bytes(b"nothing")
    for near, said in (
        ("looks", "near is"),
        (f"matrix:{tmp_path / 'small.npy'}", "matrix of numbers"),
        (f"matrix:{tmp_path / 'odd.npy'}", "no matrix"),
    ):
        with pytest.raises(BadInput, match=said):
            Hard(PART, ways=3, near=near).check()
