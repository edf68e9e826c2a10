"""Accuracy by the context of the queries, and in the worst context."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import polars as pl

from handful.errors import BadInput, Mismatch
from handful.metrics.base import Estimate, Metric, mean_interval
from handful.metrics.compare import PairedTest, paired
from handful.tasks.episode import Episode

PREFIX = "context/"


class Contexts(Metric):
    """Share of right answers among the queries of each context of a task: one column ``context/NAME`` each.

    ``worst_context`` of a run is the mean over tasks in the context where that mean is lowest; a row's own
    ``worst_context`` is the task's lowest. Tasks without known contexts give no columns.
    """

    name: ClassVar[str] = "contexts"
    columns: ClassVar[tuple[str, ...]] = ("worst_context",)
    main: ClassVar[str] = "worst_context"

    def row(self, episode: Episode, scores: np.ndarray, support_scores: np.ndarray | None = None) -> dict[str, float]:
        contexts = episode.side.get("query_contexts")
        known = episode.query_labels >= 0
        if contexts is None or not known.any():
            return {}
        names, codes = np.unique(contexts[known], return_inverse=True)
        right = np.bincount(codes, weights=(scores.argmax(1) == episode.query_labels)[known]) / np.bincount(codes)
        out = {f"{PREFIX}{name}": float(value) for name, value in zip(names, right, strict=True)}
        return {**out, "worst_context": float(right.min())}

    def reduce(self, frame: pl.DataFrame, column: str) -> Estimate:
        if column != "worst_context":
            return super().reduce(frame, column)
        means = [mean_interval(frame[c].drop_nulls().to_numpy()) for c in sorted(frame.columns) if c.startswith(PREFIX)]
        known = [m for m in means if m.n]
        return min(known, key=lambda m: m.value) if known else mean_interval(np.zeros(0))


def by_context(frame: pl.DataFrame) -> pl.DataFrame:
    """Mean accuracy with its interval in each context of a run's frame, worst first."""
    rows = []
    for column in frame.columns:
        if column.startswith(PREFIX):
            e = mean_interval(frame[column].drop_nulls().to_numpy())
            rows.append(
                {"context": column.removeprefix(PREFIX), "tasks": e.n, "value": e.value, "low": e.low, "high": e.high}
            )
    if not rows:
        raise BadInput("the run has no contexts; score it with the metric 'contexts' on a collection that has them")
    return pl.DataFrame(rows).sort("value", "context")


def gap(easy: pl.DataFrame, hard: pl.DataFrame, column: str = "accuracy") -> PairedTest:
    """Paired difference of two runs' frames under two context-shift rules: same classes, same support, other queries."""
    keys = ["repeat", "task"]
    easy, hard = easy.sort(keys), hard.sort(keys)
    if not easy.select(keys).equals(hard.select(keys)):
        raise Mismatch("the two runs are over different tasks; evaluate both with the same seed, tasks and repeats")
    return paired(easy[column].to_numpy(), hard[column].to_numpy())
