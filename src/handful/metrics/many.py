"""Many methods on the same tasks: paired tests corrected for their number, Friedman's test, groups that cannot be told apart.

J. Demsar, Statistical comparisons of classifiers over multiple data sets, JMLR 7, 2006.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

from handful.errors import BadInput, nearest
from handful.metrics.base import Estimate, mean_interval
from handful.metrics.compare import FLIPS, sign_flip

TESTS = ("sign-flip", "t", "wilcoxon")


@dataclass(frozen=True)
class Pair:
    """Two methods (column numbers), their mean difference, and its p before and after Holm's correction."""

    first: int
    second: int
    difference: Estimate
    p: float
    adjusted: float


@dataclass(frozen=True)
class Ranking:
    """Average ranks (1 is best) over n blocks, with Friedman's test and Iman and Davenport's F of it."""

    ranks: np.ndarray
    n: int
    chi2: float
    p: float
    f: float
    f_p: float


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's step-down correction: the i-th smallest of m p-values times (m - i + 1), never below a smaller one's.

    A missing p counts as 1.
    """
    p = np.where(np.isnan(p), 1.0, np.asarray(p, dtype=np.float64))
    order = np.argsort(p, kind="stable")
    out = np.empty(len(p))
    out[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return out


def p_values(differences: np.ndarray, test: str = "sign-flip") -> np.ndarray:
    """Two-sided p of each column of paired differences (n, m) under one of `TESTS`.

    Wilcoxon's signed ranks share the ranks of zero differences between the two signs, as Demsar does.
    """
    if test not in TESTS:
        raise BadInput(f"there is no paired test {test!r}; {nearest(test, TESTS)}")
    if test == "sign-flip":
        return sign_flip(differences, max(FLIPS, 100 * differences.shape[1]))
    out = []
    for column in differences.T:
        d = column[~np.isnan(column)]
        if len(d) < 2 or not np.any(d):
            out.append(1.0)
        elif test == "t":
            spread = d.std(ddof=1)
            out.append(float(stats.ttest_1samp(d, 0.0).pvalue) if spread > 1e-12 * abs(d.mean()) else 0.0)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                out.append(float(stats.wilcoxon(d, zero_method="zsplit").pvalue))
    return np.asarray(out)


def all_pairs(scores: np.ndarray, test: str = "sign-flip") -> list[Pair]:
    """Every pair of the columns of ``scores`` (n tasks, k methods), corrected by Holm over all of them."""
    numbers = list(combinations(range(scores.shape[1]), 2))
    if not numbers:
        return []
    first, second = np.asarray(numbers).T
    d = scores[:, first] - scores[:, second]
    p = p_values(d, test)
    rows = zip(numbers, d.T, p, holm(p), strict=True)
    return [Pair(i, j, mean_interval(x), float(raw), float(adjusted)) for (i, j), x, raw, adjusted in rows]


def friedman(scores: np.ndarray, lower: bool = False) -> Ranking:
    """Friedman's test, corrected for ties, over the rows of ``scores`` (n blocks, k >= 3 methods) that are whole.

    chi2 = [12 / (n k (k + 1)) sum_j R_j^2 - 3 n (k + 1)] / [1 - sum (t^3 - t) / (n k (k^2 - 1))] with rank sums R_j and
    t the sizes of ties; F = (n - 1) chi2 / (n (k - 1) - chi2) with k - 1 and (k - 1)(n - 1) degrees of freedom.
    """
    whole = np.asarray(scores, dtype=np.float64)
    whole = whole[~np.isnan(whole).any(1)]
    n, k = whole.shape
    if k < 3 or n < 2:
        raise BadInput(f"Friedman's test needs at least 3 methods and 2 blocks, not {k} and {n}")
    ranks = stats.rankdata(whole if lower else -whole, axis=1)
    ties = sum(float((c**3 - c).sum()) for c in (np.unique(row, return_counts=True)[1] for row in whole))
    correction = 1 - ties / (n * k * (k * k - 1))
    if correction <= 0:
        return Ranking(ranks.mean(0), n, 0.0, 1.0, 0.0, 1.0)
    chi2 = float((12 / (n * k * (k + 1)) * np.square(ranks.sum(0)).sum() - 3 * n * (k + 1)) / correction)
    below = n * (k - 1) - chi2
    f = (n - 1) * chi2 / below if below > 1e-9 else float("inf")
    return Ranking(
        ranks.mean(0), n, chi2, float(stats.chi2.sf(chi2, k - 1)), f, float(stats.f.sf(f, k - 1, (k - 1) * (n - 1)))
    )


def critical_difference(k: int, n: int, alpha: float = 0.05) -> float:
    """Nemenyi's: average ranks of k methods over n blocks that differ by at least this are significantly different.

    q sqrt(k (k + 1) / (6 n)), q the studentised range of k means with infinite degrees of freedom, over sqrt 2.
    """
    q = float(stats.studentized_range.ppf(1 - alpha, k, np.inf)) / np.sqrt(2)
    return float(q * np.sqrt(k * (k + 1) / (6 * n)))


def cliques(ranks: np.ndarray, tied: np.ndarray) -> list[tuple[int, ...]]:
    """Groups of neighbours by rank, as long as can be, of which no two are told apart: the bars of the diagram.

    ``tied`` (k, k) says which pairs are not significantly different. A tie across a method that differs from one of
    the two belongs to no group; the table of pairs has it.
    """
    order = np.argsort(ranks, kind="stable")
    found: list[tuple[int, ...]] = []
    reached = 0
    for start in range(len(order)):
        stop = start + 1
        while stop < len(order) and all(tied[order[stop], order[i]] for i in range(start, stop)):
            stop += 1
        if stop - start > 1 and stop > reached:
            found.append(tuple(int(i) for i in order[start:stop]))
            reached = stop
    return found
