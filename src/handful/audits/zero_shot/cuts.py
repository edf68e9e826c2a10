"""Which classes compete in each part of the analysis: by frequency, population, meaning and structural ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from handful.audits.zero_shot.growing import RatioSplit, splits_by_ratio
from handful.audits.zero_shot.split_audit import SplitAudit
from handful.audits.zero_shot.tasks import OUT, groups_of
from handful.data.taxonomy import Taxonomy
from handful.errors import HandfulError

KINDS = ("primary", "secondary")


@dataclass(frozen=True)
class AnalysisPlan:
    """How the analysis cuts classes and images; what is None is fitted to the collection.

    ``group`` is the size of the test sets behind Figures 3, 5 and 9 (100 in the paper), ``levels`` and ``each`` the
    ratios of Figure 9 and the splits at each, ``meaning_splits`` the dots a kind of Figure 3, right.
    """

    group: int | None = None
    levels: int = 5
    each: int = 4
    meaning_splits: int = 10
    train_per_class: int | None = None
    classes_per_round: int = 1000
    seed: int = 0


def quality_views(
    split: SplitAudit, group: int, left_out: dict[str, str]
) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.bool_]]:
    """Groups by frequency and population, and the classes whose words are common and mean them first."""
    n = len(split.split.test)
    views: dict[str, NDArray[np.int64]] = {}
    good = np.ones(n, dtype=bool)
    for what, values, lacking in (
        ("frequency", split.frequency, "no word counts were given (--counts FILE, or --frequency for wordfreq)"),
        ("population", split.population, "no population is known"),
    ):
        if values is None:
            left_out[f"accuracy against {what}"] = lacking
        elif np.ptp(values) == 0:
            left_out[f"accuracy against {what}"] = f"every test class has the same {what}, {values[0]:g}"
        elif n < 2 * group:
            left_out[f"accuracy against {what}"] = f"{n} test classes make no two groups of {group}"
        else:
            views[what] = groups_of(values, group)
    if split.common is not None:
        good &= split.common
    if split.meaning is not None:
        good &= split.meaning.primary
    views["good"] = np.where(good, 0, OUT)
    return views, good


def meaning_views(
    split: SplitAudit, group: int, plan: AnalysisPlan, left_out: dict[str, str]
) -> tuple[dict[str, NDArray[np.int64]], int]:
    """Random test sets of one size of primary and of secondary meanings (Figure 3, right)."""
    if split.meaning is None:
        left_out["primary and secondary meanings"] = "no word vectors were given (--words FILE)"
        return {}, 0
    known = split.meaning.described
    sides = {
        "primary": np.flatnonzero(known & split.meaning.primary),
        "secondary": np.flatnonzero(known & ~split.meaning.primary),
    }
    size = min(group, *(len(s) for s in sides.values()))
    if size < 2:
        few = len(sides["secondary"])
        left_out["primary and secondary meanings"] = f"{few} of the test classes are a secondary meaning of their word"
        return {}, 0
    rng = np.random.default_rng([plan.seed, 0x3EA7])
    out = {}
    for kind, side in sides.items():
        # Where a side is one set of this size, there is nothing to draw.
        for i in range(plan.meaning_splits if len(side) > size else 1):
            view = np.full(len(known), OUT, dtype=np.int64)
            view[rng.permutation(side)[:size]] = 0
            out[f"{kind} {i}"] = view
    return out, size


def ratio_splits(
    taxonomy: Taxonomy,
    train: Sequence[str],
    classes: Sequence[str],
    group: int,
    plan: AnalysisPlan,
    left_out: dict[str, str],
) -> list[RatioSplit]:
    try:
        return splits_by_ratio(
            taxonomy, train, classes, group, levels=plan.levels, each=plan.each, seed=plan.seed, swaps=500
        )
    except HandfulError as error:
        left_out["accuracy against the structural ratio"] = str(error)
        return []
