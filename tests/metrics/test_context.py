"""Accuracy by context: hand-computed rows, and every run on a collection with contexts."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from handful.errors import BadInput, Mismatch
from handful.methods.contract import make
from handful.metrics.context import Contexts, by_context, gap
from handful.runs.evaluate import evaluate
from handful.tasks.episode import Episode
from handful.tasks.nway import NWay


def episode(contexts) -> Episode:
    labels = np.asarray([0, 0, 1, 1])
    side = {} if contexts is None else {"query_contexts": np.asarray(contexts)}
    return Episode(0, np.arange(2), np.asarray([0, 1]), np.arange(2, 6), labels, (2,), (("a", "b"),), side=side)


def test_rows_by_hand():
    scores = np.asarray([[1, 0], [0, 1], [0, 1], [0, 1]], dtype=np.float32)
    row = Contexts().row(episode(["sea", "snow", "snow", "sea"]), scores)
    assert row == {"context/sea": 1.0, "context/snow": 0.5, "worst_context": 0.5}
    assert Contexts().row(episode(None), scores) == {}


def test_worst_context_of_a_run_is_the_lowest_mean_and_not_the_mean_of_the_lowest():
    frame = pl.DataFrame(
        {"context/sea": [1.0, 0.2, None], "context/snow": [0.4, 0.9, 0.8], "worst_context": [0.4, 0.2, 0.8]}
    )
    worst = Contexts().reduce(frame, "worst_context")
    assert worst.value == pytest.approx(0.6) and worst.n == 2
    table = by_context(frame)
    assert table["context"].to_list() == ["sea", "snow"] and table["tasks"].to_list() == [2, 3]
    with pytest.raises(BadInput, match="no contexts"):
        by_context(pl.DataFrame({"accuracy": [1.0]}))


def test_any_run_on_a_collection_with_contexts_has_them(patches):
    learner = make("nearest-centroid").untrained(patches.card.shape)
    run = evaluate(learner, NWay(patches.test, 5, 1, 6), n=20)
    assert {c for c in run.frame.columns if c.startswith("context/")} == {"context/c0", "context/c1", "context/c2"}
    assert run.estimate("worst_context").value <= run.estimate("accuracy").value + 1e-9
    assert (
        "worst_context" not in evaluate(learner, NWay(patches.test, 5, 1, 6), n=5, metrics=("accuracy",)).frame.columns
    )


def test_gap_pairs_equal_tasks_only():
    a = pl.DataFrame({"repeat": [0, 0], "task": [0, 1], "accuracy": [0.9, 0.7]})
    b = pl.DataFrame({"repeat": [0, 0], "task": [1, 0], "accuracy": [0.5, 0.6]})
    assert gap(a, b).difference.value == pytest.approx((0.3 + 0.2) / 2)
    with pytest.raises(Mismatch, match="different tasks"):
        gap(a, b.head(1))
