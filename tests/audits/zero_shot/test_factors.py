"""The 2^3 analysis recovers planted effects; accuracy against a property is scored group by group."""

from __future__ import annotations

import numpy as np
import pytest

from handful.audits.zero_shot.factors import accuracy_against, factor_analysis, factors_of
from handful.audits.zero_shot.tasks import ask, groups_of, members
from handful.data.collection import Card, Collection, as_table
from handful.data.semantics import Semantics
from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput
from handful.methods.contract import Learner
from handful.tasks.episode import Query, Support
from handful.tasks.zero_shot import ZeroShot


def test_impacts_are_mean_improvements_by_hand() -> None:
    def accuracy(visual: bool, semantic: bool, structural: bool) -> float:
        return 0.1 + 0.2 * visual + 0.05 * semantic + 0.3 * structural + 0.1 * (visual and structural)

    found = factor_analysis(accuracy)
    assert len(found.accuracy) == 8 and found.reported == pytest.approx(0.1)
    assert found.impact == pytest.approx({"visual": 0.25, "semantic": 0.05, "structural": 0.35})
    assert found.remaining_error == pytest.approx(0.25)


def test_each_flaw_is_removed_from_answers_by_hand(toy: Taxonomy) -> None:
    truth = ["zebra", "zebra", "equine", "tv", "laptop", "laptop"]
    guess = ["zebra", "equine", "zebra", "zebra", "laptop", "tv"]
    # Without tv among the candidates its image goes, and the last one falls back to laptop.
    among_good = ["zebra", "equine", "zebra", "", "laptop", "laptop"]
    good_images = np.array([True, True, True, False, True, True])
    found = factors_of(toy, truth, guess, among_good, good_images=good_images)
    table = found.accuracy
    assert table[(False, False, False)] == pytest.approx(2 / 6)
    assert table[(True, False, False)] == pytest.approx(2 / 5)
    assert table[(False, True, False)] == pytest.approx(3 / 5)
    assert table[(False, False, True)] == pytest.approx(4 / 6)
    assert table[(True, True, True)] == 1.0
    lower = factors_of(toy, truth, guess, among_good, good_images=good_images, bound="lower")
    assert lower.accuracy[(False, False, True)] == pytest.approx(3 / 6)
    with pytest.raises(BadInput, match="no image is left"):
        factors_of(toy, truth, guess, among_good, good_images=np.zeros(6, bool))
    with pytest.raises(BadInput, match="differ in number"):
        factors_of(toy, truth, guess[:5], among_good, good_images=good_images)


class Fixed(Learner):
    """Answers a table of scores, whatever it is asked with; images are their own numbers."""

    def __init__(self, scores: np.ndarray):
        self.scores = scores

    def fit(self, support: Support) -> Fixed:
        return self

    def predict(self, query: Query) -> np.ndarray:
        return self.scores[query.images[:, 0].astype(int)]


def numbered(n: int) -> tuple[ZeroShot, list[str]]:
    """One image a class, whose only feature is its number."""
    names = [f"c{i}" for i in range(n)]
    card = Card("n", "features", (1,), ("kind",), hash="0" * 64)
    whole = Collection(card, as_table({"kind": names}), np.arange(n, dtype=np.float32)[:, None]).whole
    return ZeroShot(whole, Semantics.of(names, np.eye(n))), names


def test_groups_are_their_own_test_sets() -> None:
    rule, names = numbered(7)
    scores = np.eye(7)
    # c4's image is taken by c0 over all classes, but c0 is not in c4's group.
    scores[4, 0] = 9.0
    scores[5, 4] = 2.0
    values = np.arange(7.0)
    groups = groups_of(values, 2)
    assert groups.tolist() == [0, 0, 1, 1, 2, 2, -1]
    asked = ask(Fixed(scores), rule, {"g": groups, "some": members(names, ["c4", "c6"])})
    found = accuracy_against(values, asked, "g", groups)
    assert found.value.tolist() == [0.5, 2.5, 4.5] and found.accuracy.tolist() == [1.0, 1.0, 0.5] and found.size == 2
    assert found.correlation[0] == pytest.approx(np.corrcoef([0.5, 2.5, 4.5], [1, 1, 0.5])[0, 1])
    assert asked.named(asked.guess["all"]).tolist() == ["c0", "c1", "c2", "c3", "c0", "c4", "c6"]
    assert asked.named(asked.guess["some"]).tolist() == ["", "", "", "", "c4", "", "c6"]
    columns, hits = asked.by_class("g")
    assert columns.tolist() == [0, 1, 2, 3, 4, 5] and hits.tolist() == [1, 1, 1, 1, 1, 0]
    assert asked.top5.tolist() == [1.0] * 7
    with pytest.raises(BadInput, match="no group of classes is large enough"):
        accuracy_against(values, asked, "g", groups_of(values, 8))
