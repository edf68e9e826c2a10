"""Whether probabilities can be believed: log-likelihood, Brier score, calibration error; and sets that promise coverage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
from scipy import stats

from handful.metrics.base import LEVEL, Estimate, Metric
from handful.options import Checked
from handful.tasks.episode import Episode

BINS = 15
TINY = 1e-12


def probabilities(scores: np.ndarray) -> np.ndarray:
    """The softmax of scores (Q, C) in double precision; a class at minus infinity has none."""
    scores = np.asarray(scores, dtype=np.float64)
    e = np.exp(scores - scores.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


class Calibration(Metric):
    """How far the probabilities of answers are from the shares that are right.

    ``nll`` is the mean negative log-likelihood of the truth (natural logarithm), ``brier`` the mean squared distance between
    the probabilities and the truth over all classes (between 0 and 2), both of one task. ``ece`` is the expected calibration
    error of the answered class over 15 bins of equal width, |share right - mean probability| weighted by the bin's queries,
    pooled over ALL tasks and debiased; ``confidence`` is the mean probability of the answered class.

    Notes
    -----
    A perfectly calibrated method has a plug-in error above zero, since each bin's share varies. Kumar, Liang and Ma (NeurIPS
    2019, section 5; p-lambda/verified_calibration, ``normal_debiased_ce``) subtract the bias that normal resampling of the
    shares shows; the mean absolute value of a normal variable has a closed form, so nothing is drawn here. The interval is
    the delete-one jackknife over tasks. A task's own ``ece`` is the plug-in value, kept for paired comparison only. Queries that are of no
    class of their task are left out.
    """

    name: ClassVar[str] = "calibration"
    columns: ClassVar[tuple[str, ...]] = ("ece", "brier", "nll", "confidence")
    main: ClassVar[str] = "ece"
    scales: ClassVar[Mapping[str, float]] = {"nll": 1.0, "brier": 1.0}
    lower: ClassVar[frozenset[str]] = frozenset({"ece", "brier", "nll"})

    def row(self, episode: Episode, scores: np.ndarray, support_scores: np.ndarray | None = None) -> dict[str, float]:
        known = episode.query_labels >= 0
        truth, p = episode.query_labels[known], probabilities(scores[known])
        if not len(truth):
            return {}
        at = np.arange(len(truth))
        top = p.max(1)
        binned = bins(top, p.argmax(1) == truth)
        row = {
            "nll": float(-np.log(np.maximum(p[at, truth], TINY)).mean()),
            "brier": float(((p**2).sum(1) - 2 * p[at, truth] + 1).mean()),
            "confidence": float(top.mean()),
            "ece": plain_ece(binned),
        }
        return {**row, "reliability": binned.ravel().tolist()}  # type: ignore[dict-item]

    def reduce(self, frame: pl.DataFrame, column: str) -> Estimate:
        if column != "ece" or "reliability" not in frame.columns:
            return super().reduce(frame, column)
        tables = reliability(frame)
        n, total = len(tables), tables.sum(0)
        value = float(debiased_ece(total))
        if n < 2:
            return Estimate(value, float("nan"), float("nan"), "tasks", n)
        without = debiased_ece(total[None] - tables)
        spread = np.sqrt((n - 1) / n * ((without - without.mean()) ** 2).sum())
        half = float(stats.t.ppf((1 + LEVEL) / 2, n - 1) * spread)
        return Estimate(value, value - half, value + half, "tasks", n)


def bins(confidence: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Queries, sum of their probabilities and of right answers in each bin: (3, BINS); a bin holds its upper end."""
    at = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    weights = (np.ones_like(confidence), confidence, right.astype(np.float64))
    return np.stack([np.bincount(at, weights=w, minlength=BINS) for w in weights])


def reliability(frame: pl.DataFrame) -> np.ndarray:
    """Bins of every task of a run, (tasks, 3, BINS): what a reliability figure and the pooled error are made of."""
    lists = frame["reliability"].drop_nulls().to_list()
    return np.asarray(lists, dtype=np.float64).reshape(-1, 3, BINS)


def plain_ece(table: np.ndarray) -> float:
    """The plug-in error of one table of bins."""
    n, confidence, right = table
    return float(np.abs(confidence - right).sum() / max(n.sum(), 1))


def debiased_ece(table: np.ndarray) -> np.ndarray:
    """The debiased error of tables (..., 3, BINS)."""
    n, confidence, right = np.moveaxis(table, -2, 0)
    count = np.maximum(n, 1)
    share, gap = right / count, (right - confidence) / count
    spread = np.sqrt(np.maximum(share * (1 - share), 0) / count)
    safe = np.maximum(spread, TINY)
    folded = np.sqrt(2 / np.pi) * spread * np.exp(-0.5 * (gap / safe) ** 2) + gap * (
        1 - 2 * stats.norm.cdf(-gap / safe)
    )
    weight = n / np.maximum(n.sum(-1, keepdims=True), 1)
    return np.asarray((weight * (2 * np.abs(gap) - folded)).sum(-1))


@dataclass(frozen=True)
class Conformal(Metric, metaclass=Checked):
    """Sets of classes that hold the truth as often as was promised.

    A set has every class whose probability is at least 1 - ``threshold``; the threshold is the quantile of 1 - p(truth) that
    split conformal prediction takes on validation tasks (`threshold_for`; the LAC score of Sadinle, Lei and Wasserman, JASA
    2019). ``coverage`` is the share of queries whose set holds the truth, ``worst_class_coverage`` that of the worst class of
    a task, ``set_size`` the mean number of classes in a set.
    """

    threshold: float = 1.0

    name: ClassVar[str] = "conformal"
    columns: ClassVar[tuple[str, ...]] = ("coverage", "worst_class_coverage", "set_size")
    main: ClassVar[str] = "coverage"
    scales: ClassVar[Mapping[str, float]] = {"set_size": 1.0}
    lower: ClassVar[frozenset[str]] = frozenset({"set_size"})

    def row(self, episode: Episode, scores: np.ndarray, support_scores: np.ndarray | None = None) -> dict[str, float]:
        known = episode.query_labels >= 0
        truth, p = episode.query_labels[known], probabilities(scores[known])
        if not len(truth):
            return {}
        inside = 1 - p <= self.threshold + TINY
        held = inside[np.arange(len(truth)), truth]
        total = np.bincount(truth)
        by_class = np.bincount(truth, weights=held)[total > 0] / total[total > 0]
        return {
            "coverage": float(held.mean()),
            "worst_class_coverage": float(by_class.min()),
            "set_size": float(inside.sum(1).mean()),
        }


def threshold_for(truths: np.ndarray, alpha: float) -> float:
    """The threshold at which sets miss the truth at most a share ``alpha`` of the time, from validation probabilities of the truth.

    The ceil((n + 1)(1 - alpha))-th smallest of 1 - p; 1 (every class) where there are too few.
    """
    misses = np.sort(1 - np.asarray(truths, dtype=np.float64))
    place = int(np.ceil((len(misses) + 1) * (1 - alpha)))
    return float(misses[place - 1]) if place <= len(misses) else 1.0
