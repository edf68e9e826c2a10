"""Scores of pair tasks: seen and unseen accuracy, their harmonic mean, the primitives', and what unseen pairs are taken for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import polars as pl
from scipy import stats

from handful.metrics.base import LEVEL, Estimate, Metric, mean_interval
from handful.tasks.episode import Episode

MEANS = ("unseen", "seen", "p1_unseen", "p1_seen", "p2_unseen", "p2_seen", "u_to_s", "u_to_u")
DERIVED = {
    "hm": ("unseen", "seen"),
    "p1_hm": ("p1_unseen", "p1_seen"),
    "p2_hm": ("p2_unseen", "p2_seen"),
    "confusion": ("u_to_s", "u_to_u"),
}


class PairAccuracy(Metric):
    """Accuracy over the open world of N x N pairs (RLCL, section 2.5).

    ``unseen`` (UA) and ``seen`` (SA) are accuracies on the queries of unseen and seen pairs; ``hm`` is
    2 UA SA / (UA + SA) of the means over ALL tasks: tasks with (UA, SA) = (0, 1) and (1, 0) give 0.5. ``p1_*`` and
    ``p2_*`` are the same of each primitive. ``u_to_s`` is the share of unseen queries taken for a seen pair, ``u_to_u``
    for a wrong pair that is not seen (existing or not), so that unseen + u_to_s + u_to_u = 1; ``confusion`` is the ratio
    of their means.

    Notes
    -----
    With several repeats (random experiments) the interval is Student's t over them, otherwise over tasks; that of a
    derived column comes from the delete-one jackknife. There is none where a repeat's ratio is infinite. A task's own ``hm`` is kept for paired comparison only.
    """

    name: ClassVar[str] = "pairs"
    columns: ClassVar[tuple[str, ...]] = ("hm", "unseen", "seen", "p1_hm", "p2_hm", "confusion", *MEANS[2:])
    main: ClassVar[str] = "hm"
    scales: ClassVar[Mapping[str, float]] = {"confusion": 1.0}
    lower: ClassVar[frozenset[str]] = frozenset({"confusion", "u_to_s", "u_to_u"})

    def row(self, episode: Episode, scores: np.ndarray, support_scores: np.ndarray | None = None) -> dict[str, float]:
        return pair_row(episode, scores.argmax(1))

    def reduce(self, frame: pl.DataFrame, column: str) -> Estimate:
        repeats = frame["repeat"].to_numpy() if "repeat" in frame.columns else np.zeros(len(frame), dtype=np.int64)
        kinds = np.unique(repeats)
        parts = DERIVED.get(column, (column,))
        values = frame.select(parts).cast(pl.Float64).to_numpy()
        if len(kinds) > 1:
            each = np.asarray([_of_means(column, np.nanmean(values[repeats == k], 0)) for k in kinds])
            half = mean_interval(each, over="repeats").half if np.isfinite(each).all() else float("nan")
            value = _of_means(column, np.nanmean(values, 0))
            return Estimate(value, value - half, value + half, "repeats", len(kinds))
        if column not in DERIVED:
            return mean_interval(values[:, 0])
        return jackknife(column, values)


def pair_row(episode: Episode, answer: np.ndarray) -> dict[str, float]:
    """All columns of one task from the answered pair of every query."""
    assert episode.seen is not None and len(episode.shape) == 2
    truth, n2 = episode.query_labels, episode.shape[1]
    known = episode.seen[truth]
    right = answer == truth
    first, second = answer // n2 == truth // n2, answer % n2 == truth % n2
    to_seen = episode.seen[answer]
    row = {
        "unseen": _mean(right[~known]),
        "seen": _mean(right[known]),
        "p1_unseen": _mean(first[~known]),
        "p1_seen": _mean(first[known]),
        "p2_unseen": _mean(second[~known]),
        "p2_seen": _mean(second[known]),
        "u_to_s": _mean(to_seen[~known]),
        "u_to_u": _mean((~to_seen & ~right)[~known]),
    }
    return {**row, **{name: _of_means(name, [row[a], row[b]]) for name, (a, b) in DERIVED.items()}}


def harmonic(a: float, b: float) -> float:
    """2ab / (a + b); 0 where both are 0."""
    return 2 * a * b / (a + b) if a + b > 0 else (0.0 if a + b == 0 else float("nan"))


def jackknife(column: str, values: np.ndarray, level: float = LEVEL) -> Estimate:
    """A function of two means with the interval of its delete-one estimates."""
    values = values[~np.isnan(values).any(1)]
    n = len(values)
    if n == 0:
        return Estimate(float("nan"), float("nan"), float("nan"), "tasks", 0)
    value = _of_means(column, values.mean(0))
    if n == 1 or not np.isfinite(value):
        return Estimate(value, float("nan"), float("nan"), "tasks", n)
    without = (values.sum(0) - values) / (n - 1)
    each = np.asarray([_of_means(column, means) for means in without])
    if not np.isfinite(each).all():
        return Estimate(value, float("nan"), float("nan"), "tasks", n)
    half = float(stats.t.ppf((1 + level) / 2, n - 1) * np.sqrt((n - 1) / n * np.square(each - each.mean()).sum()))
    return Estimate(value, value - half, value + half, "tasks", n)


def _of_means(column: str, means: np.ndarray | list[float]) -> float:
    if column == "confusion":
        if means[1] > 0:
            return float(means[0] / means[1])
        return float("inf") if means[0] > 0 else float("nan")
    return harmonic(float(means[0]), float(means[1])) if column in DERIVED else float(means[0])


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
