"""The structural numbers on toys by hand, on brute force, and on ImageNet's published splits."""

from __future__ import annotations

import numpy as np
import pytest

from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput
from handful.metrics.structure import (
    relations,
    relatives,
    shares,
    structural_ratio,
    trivial_bound,
    trivial_expectation,
    trivial_mapping,
)
from made.graphs import random_dag


def test_figure_seven_gives_one_half_and_a_trivial_accuracy_of_one(toy: Taxonomy) -> None:
    ratio = structural_ratio(toy, ["horse", "tv"], ["zebra", "laptop"])
    assert ratio.value == 0.5 and ratio.to_train.tolist() == [2, 2] and ratio.to_test.tolist() == [4, 4]
    assert trivial_bound(toy, ["horse", "tv"], ["zebra", "laptop"]) == 1.0
    assert trivial_bound(toy, ["horse", "tv"], ["zebra", "laptop"], ties="average") == 1.0


def test_wrong_splits_are_refused(toy: Taxonomy) -> None:
    with pytest.raises(BadInput, match="two test classes or more, found 1"):
        structural_ratio(toy, ["horse"], ["zebra"])
    with pytest.raises(BadInput, match=r"in train and in test \(horse\)"):
        structural_ratio(toy, ["horse"], ["zebra", "horse"])
    with pytest.raises(BadInput, match=r"1 not in given \(n00000000\)"):
        structural_ratio(toy, ["horse"], ["zebra", "n00000000"])
    islands = Taxonomy.of([("a", "r"), ("b", "r"), ("c", "s"), ("d", "s")])
    with pytest.raises(BadInput, match=r"no path to any training class \(c, d\)"):
        structural_ratio(islands, ["a"], ["c", "d"])
    with pytest.raises(BadInput, match=r"no path to any other test class"):
        structural_ratio(islands, ["a", "d"], ["b", "c"])


@pytest.mark.parametrize("seed", range(3))
def test_ratio_relatives_and_mapping_agree_with_brute_force(seed: int) -> None:
    tax, _ = random_dag(200, seed)
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(200)
    train, test = chosen[:30], chosen[30:90]
    to_train = tax.distances(test, train).astype(float)
    to_test = tax.distances(test, test).astype(float)
    np.fill_diagonal(to_test, np.inf)
    ratio = structural_ratio(tax, train, test)
    assert np.allclose(ratio.per_class, to_train.min(1) / to_test.min(1))
    kin = relatives(tax, train, test)
    for i, c in enumerate(test):
        family = set(tax.ancestors([int(c)])) | set(tax.descendants([int(c)]))
        assert kin.in_test[i] == bool(family & set(test)) and kin.in_train[i] == bool(family & set(train))
    tied = to_train == to_train.min(1, keepdims=True)
    assert np.allclose(trivial_mapping(tax, train, test, ties="average"), tied / tied.sum(1, keepdims=True))
    first = trivial_mapping(tax, train, test)
    assert np.array_equal(first.argmax(1), tied.argmax(1)) and (first.sum(1) == 1).all()
    # Each training class that is somebody's nearest is won once in expectation.
    assert trivial_bound(tax, train, test) == pytest.approx(len(set(first.argmax(1))) / len(test))


def test_tied_descriptions_share_the_win() -> None:
    # Two test classes on the first training class, a third on both: the two win the first, the third the second.
    mapping = np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    assert trivial_expectation(mapping).tolist() == [0.5, 0.5, 0.5]


def test_four_shares_by_hand(toy: Taxonomy) -> None:
    truth = ["zebra", "zebra", "equine", "zebra", "equine", "tv", "zebra", "zebra"]
    predicted = ["zebra", "equine", "zebra", "tv", "equine", "thing", "horse", "zebra"]
    assert relations(toy, truth, predicted).tolist() == [0, 1, 2, 3, 0, 1, 3, 0]
    found = shares(toy, truth, predicted)
    assert (found.true, found.ancestor, found.descendant, found.unrelated) == (3 / 8, 2 / 8, 1 / 8, 2 / 8)
    assert (found.lower, found.upper, found.fn_per_tp) == (5 / 8, 6 / 8, 1.0)
    # zebra 2/5 true, equine 1/2, tv 0.
    assert shares(toy, truth, predicted, per_class=True).true == pytest.approx((0.4 + 0.5 + 0.0) / 3)
    assert shares(toy, ["zebra"], ["equine"]).fn_per_tp == np.inf
    with pytest.raises(BadInput, match="1 predictions for 2"):
        shares(toy, ["zebra", "tv"], ["zebra"])


def test_shares_sum_to_one_whatever_is_predicted() -> None:
    tax, _ = random_dag(120, 5)
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(0, 120, 500), rng.integers(0, 120, 500)
    for per_class in (False, True):
        found = shares(tax, truth, predicted, per_class=per_class)
        assert found.true + found.ancestor + found.descendant + found.unrelated == pytest.approx(1.0)
    for t, p, code in zip(truth, predicted, relations(tax, truth, predicted), strict=True):
        expected = 0 if t == p else 1 if p in tax.ancestors([int(t)]) else 2 if p in tax.descendants([int(t)]) else 3
        assert code == expected


@pytest.mark.parametrize(
    ("name", "expected", "of_means"),
    [("1-hop", 0.617, 0.559), ("2-hops", 2.291, None), ("all", 3.863, None), ("goz_v1", 2.212, None)],
)
def test_ratios_of_the_published_splits(
    nouns: Taxonomy, splits: dict[str, list[str]], name: str, expected: float, of_means: float | None
) -> None:
    found = structural_ratio(nouns, splits["train"], splits[name])
    assert found.value == pytest.approx(expected, abs=0.005)
    if of_means is not None:
        assert found.ratio_of_means == pytest.approx(of_means, abs=0.001)


def test_relatives_of_the_published_splits(nouns: Taxonomy, splits: dict[str, list[str]]) -> None:
    one = relatives(nouns, splits["train"], splits["1-hop"])
    assert one.in_test.mean() == pytest.approx(0.981, abs=0.0005) and one.in_train.mean() == 1.0
    goz = relatives(nouns, splits["train"], splits["goz_v1"])
    assert goz.consistent and not goz.in_test.any()
