"""Paired comparison of two runs on the same tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from handful.errors import Mismatch
from handful.metrics.base import Estimate, mean_interval

FLIPS = 9999
BLOCK = 1024


@dataclass(frozen=True)
class PairedTest:
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


def paired(a: np.ndarray, b: np.ndarray, seed: int = 0, flips: int = FLIPS) -> PairedTest:
    """Difference of paired scores: t interval, and a permutation test that flips the signs of the differences.

    Pairs of which one has no score are left out.
    """
    a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if a.shape != b.shape:
        raise Mismatch(f"{len(a)} tasks cannot be paired with {len(b)}; evaluate both on the same tasks")
    d = (a - b)[:, None]
    return PairedTest(mean_interval(d[:, 0]), float(sign_flip(d, flips, seed)[0]))


def sign_flip(differences: np.ndarray, flips: int = FLIPS, seed: int = 0) -> np.ndarray:
    """Two-sided p of each column of ``differences`` (n, m): how often a mean with signs flipped at random is as far from 0.

    All patterns are tried where there are no more than ``flips`` of them, else p = (1 + hits) / (1 + flips). Columns are
    flipped by the same signs, so a column's p does not depend on the others. A missing difference weighs nothing.
    """
    d = np.nan_to_num(np.asarray(differences, dtype=np.float64))
    n = len(d)
    edge = np.abs(d.sum(0)) - 1e-9 * np.abs(d).sum(0)
    exact = n < 63 and 2**n <= flips + 1
    rng = np.random.default_rng(seed)
    total = 2**n if exact else flips
    hits = np.zeros(d.shape[1])
    for start in range(0, total, BLOCK):
        some = np.arange(start, min(start + BLOCK, total))
        ones = some[:, None] >> np.arange(n) & 1 if exact else rng.integers(0, 2, (len(some), n), dtype=np.int8)
        hits += (np.abs((2.0 * ones - 1.0) @ d) >= edge).sum(0)
    return hits / total if exact else (1 + hits) / (1 + total)
