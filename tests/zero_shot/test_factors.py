"""The 2^3 analysis recovers planted effects; accuracy against a property is scored group by group."""

from __future__ import annotations

import numpy as np
import pytest

from handful.audits.zero_shot.factors import accuracy_against, factor_analysis, factors_of
from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput


def test_impacts_are_mean_improvements_by_hand() -> None:
    def accuracy(visual: bool, semantic: bool, structural: bool) -> float:
        return 0.1 + 0.2 * visual + 0.05 * semantic + 0.3 * structural + 0.1 * (visual and structural)

    found = factor_analysis(accuracy)
    assert len(found.accuracy) == 8 and found.reported == pytest.approx(0.1)
    assert found.impact == pytest.approx({"visual": 0.25, "semantic": 0.05, "structural": 0.35})
    assert found.remaining_error == pytest.approx(0.25)


def test_each_flaw_is_removed_from_scores_by_hand(toy: Taxonomy) -> None:
    candidates = ["zebra", "equine", "tv", "laptop"]
    truth = ["zebra", "zebra", "equine", "tv", "laptop", "laptop"]
    best = ["zebra", "equine", "zebra", "zebra", "laptop", "tv"]
    scores = np.array([[float(c == b) for c in candidates] for b in best])
    scores[5, 3] = 0.5
    good_images = np.array([True, True, True, False, True, True])
    good_classes = np.array([True, True, False, True])
    found = factors_of(toy, scores, truth, candidates, good_images=good_images, good_classes=good_classes)
    table = found.accuracy
    assert table[(False, False, False)] == pytest.approx(2 / 6)
    assert table[(True, False, False)] == pytest.approx(2 / 5)
    # Without the column of tv its image goes and the last one falls back to laptop.
    assert table[(False, True, False)] == pytest.approx(3 / 5)
    assert table[(False, False, True)] == pytest.approx(4 / 6)
    lower = factors_of(
        toy, scores, truth, candidates, good_images=good_images, good_classes=good_classes, bound="lower"
    )
    assert lower.accuracy[(False, False, True)] == pytest.approx(3 / 6)
    assert table[(True, True, True)] == 1.0
    with pytest.raises(BadInput, match="no image is left"):
        factors_of(toy, scores, truth, candidates, good_images=np.zeros(6, bool), good_classes=good_classes)


def test_groups_are_their_own_test_sets() -> None:
    classes = [f"c{i}" for i in range(6)]
    truth = np.array(classes)
    scores = np.eye(6)
    # c4's image is taken by c0 over all classes, but c0 is not in c4's group.
    scores[4, 0] = 9.0
    scores[5, 4] = 2.0
    found = accuracy_against(np.arange(6.0), scores, truth, classes, size=2)
    assert found.value.tolist() == [0.5, 2.5, 4.5] and found.accuracy.tolist() == [1.0, 1.0, 0.5]
    assert found.correlation[0] == pytest.approx(np.corrcoef([0.5, 2.5, 4.5], [1, 1, 0.5])[0, 1])
    with pytest.raises(BadInput, match="make no group of 7"):
        accuracy_against(np.arange(6.0), scores, truth, classes, size=7)
