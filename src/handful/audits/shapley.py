"""Sharing a whole among sources that overlap: each source's mean addition over all orders (Shapley's value)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import factorial

import numpy as np

from handful.errors import BadInput

MOST = 12


def shapley(value: Callable[[frozenset[str]], np.ndarray], sources: Sequence[str]) -> dict[str, np.ndarray]:
    """What each source adds to ``value``, averaged over all orders in which the sources can come.

        φ_s = Σ_{S without s} |S|! (n - |S| - 1)! / n! (value(S + s) - value(S))

    The shares add up to value(all) - value(none) exactly, entry by entry. The zero-shot analysis of 2³ configurations
    (Hascoet et al., CVPR 2019, Figure 6) averages over configurations instead, and need not add up.

    Parameters
    ----------
    value
        From a set of sources to a number, or to an array with one entry an answer.
    """
    names = list(sources)
    if len(set(names)) < len(names):
        raise BadInput("a source is named twice; give each once")
    if len(names) > MOST:
        raise BadInput(f"{len(names)} sources have {2 ** len(names)} sets; give at most {MOST}")
    known = {
        frozenset(some): np.asarray(value(frozenset(some)), dtype=np.float64)
        for size in range(len(names) + 1)
        for some in combinations(names, size)
    }
    n = len(names)
    out: dict[str, np.ndarray] = {}
    for s in names:
        rest = [r for r in names if r != s]
        total = np.zeros_like(known[frozenset()])
        for size in range(n):
            weight = factorial(size) * factorial(n - size - 1) / factorial(n)
            for some in combinations(rest, size):
                total = total + weight * (known[frozenset(some) | {s}] - known[frozenset(some)])
        out[s] = total
    return out
