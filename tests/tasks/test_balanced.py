"""Balanced tasks: contexts tell nothing of the class, and images come by their weights."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest

from handful.data.collection import Card, Collection, Part
from handful.errors import BadInput, Infeasible
from handful.tasks.balanced import Balanced


def collection(counts: np.ndarray, weights: list[float] | None = None) -> Part:
    """``counts[c, k]`` images of class c in context k."""
    c, k = np.nonzero(counts >= 0)
    labels, contexts = np.repeat(c, counts[c, k]), np.repeat(k, counts[c, k])
    table = pl.DataFrame({"class": [f"c{v}" for v in labels], "place": [f"k{v}" for v in contexts]})
    if weights is not None:
        table = table.with_columns(pl.Series("weight", weights))
    card = Card("made", "features", (1,), ("class",), context="place", hash=str(counts.tolist()))
    return Collection(card, table, np.zeros((len(table), 1), np.float32)).whole


@pytest.mark.parametrize("contexts, shots, queries", [(1, 2, 3), (2, 5, 3), (3, 3, 4)])
def test_every_class_of_a_task_has_the_same_contexts_as_often(contexts, shots, queries):
    rng = np.random.default_rng(0)
    part = collection(rng.integers(4, 12, (8, 5)))
    places = part.collection.table["place"].to_numpy()
    for e in Balanced(part, 3, shots, queries, contexts=contexts).draw_block(1, 0, 50):
        for rows, labels, n in ((e.support, e.support_labels, shots), (e.query, e.query_labels, queries)):
            seen = [Counter(places[rows[labels == w]]) for w in range(3)]
            assert seen[0] == seen[1] == seen[2] and sum(seen[0].values()) == n
        assert len(set(places[e.support])) == contexts


def test_classes_that_share_no_context_are_never_together_and_all_others_are():
    counts = np.zeros((4, 2), dtype=int)
    counts[:2, 0] = counts[2:, 1] = 6
    drawn = {frozenset(e.names[0]) for e in Balanced(collection(counts), 2, 1, 2).draw_block(0, 0, 60)}
    assert drawn == {frozenset({"c0", "c1"}), frozenset({"c2", "c3"})}
    counts[0, 1] = 6
    drawn = {frozenset(e.names[0]) for e in Balanced(collection(counts), 2, 1, 2).draw_block(0, 0, 200)}
    assert drawn == {frozenset(p) for p in ({"c0", "c1"}, {"c2", "c3"}, {"c0", "c2"}, {"c0", "c3"})}


def test_what_cannot_be_balanced_is_said():
    counts = np.diag([9, 9, 9])
    with pytest.raises(Infeasible, match="0 classes with 4 images in each of 1 contexts that 2 classes share"):
        Balanced(collection(counts), 2, 1, 3).check()
    Balanced(collection(counts), 2, 1, 3, contexts=0).check()


def test_images_come_in_proportion_to_their_weights():
    part = collection(np.full((2, 1), 20), [4.0] * 10 + [1.0] * 10 + [1.0] * 20)
    rule = Balanced(part, 2, 1, 1, contexts=0)
    rows = np.concatenate([e.support[e.support < 20] for e in rule.draw_block(0, 0, 4000)])
    # One of twenty: ten weigh four and ten weigh one, so that four in five draws are of the heavy ones.
    assert np.mean(rows < 10) == pytest.approx(0.8, abs=0.03)
    queries = np.concatenate([e.query[e.query < 20] for e in rule.draw_block(0, 0, 4000)])
    assert np.mean(queries < 10) == pytest.approx(np.mean(rows < 10), abs=0.03)


def test_weights_that_are_none_are_refused():
    part = collection(np.full((2, 1), 5), [1.0] * 9 + [0.0])
    with pytest.raises(BadInput, match="must hold numbers above 0"):
        Balanced(part, 2, 1, 1, contexts=0).draw(0, 0)
    part = collection(np.full((2, 1), 5), ["heavy"] * 10)  # type: ignore[list-item]
    with pytest.raises(BadInput, match="holds no numbers"):
        Balanced(part, 2, 1, 1, contexts=0).draw(0, 0)


def test_without_weights_or_contexts_every_image_is_as_likely():
    part = collection(np.full((2, 1), 10))
    rows = np.concatenate([e.support for e in Balanced(part, 2, 2, 2, contexts=0).draw_block(0, 0, 3000)])
    shares = np.bincount(rows, minlength=20) / len(rows)
    assert shares == pytest.approx(np.full(20, 0.05), abs=0.01)
