"""What a metric is: numbers for one task, and how they become one number with an interval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
from scipy import stats

from handful.tasks.episode import Episode

LEVEL = 0.95
"""How often an interval covers what it estimates."""
TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
"""The quantiles where an interval ends."""
SHOWN = f"{100 * LEVEL:g}%"
"""The level as texts, tables and figures name it."""
NORMAL = float(stats.norm.ppf(TAILS[1]))
"""Half an interval of this level in standard deviations, where the spread itself is known."""


@dataclass(frozen=True)
class Estimate:
    """A value and its interval (of ``LEVEL``); ``over`` says what the interval covers (tasks, seeds, classes).

    ``scale`` is what the value is multiplied by to be shown: 100 for shares, which are shown in percent, 1 for ratios.
    """

    value: float
    low: float
    high: float
    over: str
    n: int
    scale: float = 100.0

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        return f"{self.scale * self.value:.2f} ± {self.scale * self.half:.2f}"

    def as_dict(self) -> dict[str, Any]:
        return {"value": self.value, "low": self.low, "high": self.high, "over": self.over, "n": self.n}


def mean_interval(values: np.ndarray, over: str = "tasks", level: float = LEVEL) -> Estimate:
    """Mean with a Student-t interval, t · σ / √n with n - 1 degrees of freedom (metadl Eq. 3)."""
    values = np.asarray(values, dtype=np.float64)
    values = values[~np.isnan(values)]
    n = len(values)
    if n == 0:
        return Estimate(float("nan"), float("nan"), float("nan"), over, 0)
    mean = float(values.mean())
    if n == 1:
        return Estimate(mean, float("nan"), float("nan"), over, 1)
    half = float(stats.t.ppf((1 + level) / 2, n - 1) * values.std(ddof=1) / np.sqrt(n))
    return Estimate(mean, mean - half, mean + half, over, n)


class Metric:
    """Base of the metrics.

    ``row`` scores one task (the episode is the scorer's truth); ``reduce`` turns a frame of rows into an estimate for one of
    ``columns``: mean and t interval over tasks unless a metric has its own way. Columns are shares, shown in percent, unless
    ``scales`` names another factor (1 for a ratio); more is better unless ``lower`` names the column.
    """

    name: ClassVar[str] = ""
    columns: ClassVar[tuple[str, ...]] = ()
    main: ClassVar[str] = ""
    scales: ClassVar[Mapping[str, float]] = {}
    lower: ClassVar[frozenset[str]] = frozenset()

    def row(self, episode: Episode, scores: np.ndarray, support_scores: np.ndarray | None = None) -> dict[str, float]:
        raise NotImplementedError

    def reduce(self, frame: pl.DataFrame, column: str) -> Estimate:
        return mean_interval(frame[column].to_numpy())
