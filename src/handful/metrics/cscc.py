"""The class semantics consistency criterion: accuracy without labels over accuracy with them."""

from __future__ import annotations

from math import hypot

import numpy as np

from handful.errors import BadInput, Mismatch
from handful.metrics.base import TAILS, Estimate


def cscc(unsupervised: np.ndarray, supervised: np.ndarray, *, seed: int = 0, draws: int = 10_000) -> Estimate:
    """CSCC with the interval of a paired bootstrap over tasks (Centroid Networks, Eq. 1).

    The two accuracies of a task rise and fall together (an easy task is easy with and without labels), so tasks are
    drawn again in pairs: mean(unsupervised) / mean(supervised), 2.5% to 97.5% of the draws.

    Parameters
    ----------
    unsupervised, supervised
        Accuracies of the same tasks in the same order.
    """
    a, b = np.asarray(unsupervised, dtype=np.float64), np.asarray(supervised, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise Mismatch(f"{len(a)} unsupervised tasks cannot be paired with {len(b)} supervised; use the same tasks")
    if not len(a) or np.isnan(a).any() or np.isnan(b).any():
        raise BadInput("CSCC needs an accuracy with and one without labels for at least one task, and no missing ones")
    if b.mean() <= 0:
        raise BadInput("CSCC has no value where the supervised accuracy is 0; check the supervised run")
    rng = np.random.default_rng(seed)
    ratios = np.empty(draws)
    step = max(1, 4_000_000 // len(a))
    for start in range(0, draws, step):
        pick = rng.integers(0, len(a), (min(step, draws - start), len(a)))
        below = b[pick].mean(1)
        ratios[start : start + step] = np.where(below > 0, a[pick].mean(1) / np.where(below > 0, below, 1), np.nan)
    low, high = np.nanquantile(ratios, TAILS)
    return Estimate(float(a.mean() / b.mean()), float(low), float(high), "tasks", len(a))


def quadrature(unsupervised: float, half: float, supervised: float, supervised_half: float) -> tuple[float, float]:
    """CSCC and its half interval as the paper has it: the two accuracies taken as independent.

    ``r = a / b``, ``dr = r * sqrt((da / a)^2 + (db / b)^2)``; wider than the paired interval wherever the two accuracies
    of a task go together.
    """
    if unsupervised <= 0 or supervised <= 0:
        raise BadInput(f"both accuracies must be above 0, not {unsupervised} and {supervised}")
    ratio = unsupervised / supervised
    return ratio, ratio * hypot(half / unsupervised, supervised_half / supervised)
