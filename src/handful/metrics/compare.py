"""Paired comparison of two runs on the same tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from handful.errors import Mismatch
from handful.metrics.base import Estimate, mean_interval


@dataclass(frozen=True)
class Comparison:
    """Mean difference a - b with its interval, and the sign-flip p-value."""

    difference: Estimate
    p: float

    @property
    def tie(self) -> bool:
        return not self.p < 0.05

    def __str__(self) -> str:
        verdict = (
            "a tie" if self.tie else ("the first is better" if self.difference.value > 0 else "the second is better")
        )
        return f"{self.difference} (p = {self.p:.4g}: {verdict})"


def paired(a: np.ndarray, b: np.ndarray, seed: int = 0, flips: int = 9999) -> Comparison:
    """Difference of paired scores: t interval, and a permutation test that flips the signs of the differences.

    All sign patterns are tried when there are few pairs (scipy.stats.permutation_test's exact case).
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape != b.shape:
        raise Mismatch(f"{len(a)} tasks cannot be paired with {len(b)}; evaluate both on the same tasks")
    d = a - b
    estimate = mean_interval(d)
    if len(d) < 2 or (np.ptp(d) == 0 and d[0] == 0):
        return Comparison(estimate, 1.0)
    test = stats.permutation_test(
        (d,), np.mean, permutation_type="samples", n_resamples=flips, vectorized=True, rng=np.random.default_rng(seed)
    )
    return Comparison(estimate, float(test.pvalue))
