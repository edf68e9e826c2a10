"""Accuracy against structural ratio: test splits of one size and growing R, the same fitted learners on all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from handful.audits.zero_shot.tasks import ClassAnswers, ask, members
from handful.audits.zero_shot.visual import Ceiling, ceiling
from handful.data.collection import Part
from handful.data.taxonomy import Taxonomy
from handful.errors import Infeasible
from handful.methods.contract import Learner
from handful.metrics.structure import relatives, structural_ratio
from handful.metrics.zero_shot import over_classes
from handful.tasks.zero_shot import ZeroShot


@dataclass(frozen=True)
class RatioSplit:
    """A test split drawn for its structural ratio; ``level`` counts the ratios aimed at from the lowest."""

    level: int
    classes: tuple[str, ...]
    ratio: float


def splits_by_ratio(
    taxonomy: Taxonomy,
    train: Sequence[str],
    pool: Sequence[str],
    n: int,
    *,
    levels: int = 5,
    each: int = 4,
    seed: int = 0,
    swaps: int = 2000,
) -> list[RatioSplit]:
    """Consistent splits of ``n`` pool classes at ``levels`` ratios from the lowest to the highest that exchanges reach.

    From a random start classes are exchanged while that brings R nearer to the aim. Pool classes with a relative in
    train are left out; relatives inside the pool are refused, since R compares consistent sets only.
    """
    kin = relatives(taxonomy, train, pool)
    free = [c for c, related in zip(pool, kin.in_train, strict=True) if not related]
    if kin.in_test.any():
        some = kin.classes[kin.in_test][:3]
        raise Infeasible(f"pool classes are above or below one another ({', '.join(some)}); leave some out")
    if len(free) <= n:
        raise Infeasible(
            f"{len(free)} pool classes have no relative in train, splits of {n} need more; use smaller splits"
        )
    away = taxonomy.to_nearest(train)[taxonomy.index(free)].astype(float)
    apart = taxonomy.distances(free, free).astype(float)
    np.fill_diagonal(apart, np.inf)
    rng = np.random.default_rng([seed, 0x6120])

    def ratio(chosen: NDArray[np.int64]) -> float:
        return float((away[chosen] / apart[np.ix_(chosen, chosen)].min(axis=1)).mean())

    def aim(target: float) -> NDArray[np.int64]:
        order = rng.permutation(len(free))
        inside, outside = order[:n], order[n:]
        best = abs(ratio(inside) - target)
        for _ in range(swaps):
            i, j = rng.integers(n), rng.integers(len(outside))
            inside[i], outside[j] = outside[j], inside[i]
            now = abs(ratio(inside) - target)
            if now <= best:
                best = now
            else:
                inside[i], outside[j] = outside[j], inside[i]
        return np.sort(inside)

    low = min(ratio(aim(0.0)) for _ in range(3))
    high = max(ratio(aim(float(away.max()))) for _ in range(3))
    out = []
    for level, target in enumerate(np.linspace(low, high, levels)):
        for _ in range(each):
            classes = tuple(free[i] for i in aim(float(target)))
            out.append(RatioSplit(level, classes, structural_ratio(taxonomy, train, classes).value))
    return out


def grow(
    learners: Mapping[str, Learner], rule: ZeroShot, splits: Sequence[RatioSplit], *, folds: int = 4, seed: int = 0
) -> pl.DataFrame:
    """Top-1 of every learner on every split, and the supervised ceiling on the collection's features beside it.

    One row per split, method and class, so that intervals over classes can be computed for a split or a level. Every image is
    scored once a learner; a split only chooses which candidates compete.
    """
    views = {str(i): members(rule.candidates, split.classes) for i, split in enumerate(splits)}
    asked = {title: ask(learner, rule, views) for title, learner in learners.items()}
    return grown(asked, splits, ceilings(rule, splits, folds=folds, seed=seed))


def ceilings(rule: ZeroShot, splits: Sequence[RatioSplit], *, folds: int = 4, seed: int = 0) -> list[Ceiling]:
    """The supervised ceiling of each split; empty for images, which have no features of their own."""
    if rule.part.collection.card.kind != "features":
        return []
    out = []
    for split in splits:
        part = chosen_part(rule.part, split.classes)
        names = np.array(part.class_names)[part.classes]
        out.append(ceiling(part.collection.read(part.rows), names, part.class_names, folds=folds, seed=seed))
    return out


def grown(asked: Mapping[str, ClassAnswers], splits: Sequence[RatioSplit], tops: Sequence[Ceiling]) -> pl.DataFrame:
    """The table of :func:`grow` from answers whose views are the splits' numbers."""
    rows = []
    for number, split in enumerate(splits):
        if tops:
            names, mean = tops[number].by_class
            rows += [_row(number, split, "ceiling", n, v) for n, v in zip(names, mean, strict=True)]
        for title, answers in asked.items():
            columns, hits = answers.by_class(str(number))
            found = zip(answers.candidates[columns].tolist(), hits.tolist(), strict=True)
            rows += [_row(number, split, title, name, hit) for name, hit in found]
    return pl.DataFrame(rows)


def _row(number: int, split: RatioSplit, method: str, name: str, hit: float) -> dict[str, object]:
    return {"split": number, "level": split.level, "ratio": split.ratio, "method": method, "class": name, "top1": hit}


def chosen_part(part: Part, classes: Sequence[str]) -> Part:
    """The images of some classes of a part."""
    keep = np.isin(np.array(part.class_names)[part.classes], np.array(list(classes)))
    return part.where(keep, f"{len(classes)} classes")


def by_level(frame: pl.DataFrame) -> pl.DataFrame:
    """Mean ratio and top-1 of each level and method with a 95% interval over its distinct classes."""
    rows = []
    for (level, method), group in frame.group_by("level", "method", maintain_order=True):
        # A class may be in several splits of a level: it counts once, with its mean.
        per_class = group.group_by("class").agg(pl.col("top1").mean())["top1"].to_numpy()
        found = over_classes(per_class)
        mean = group.group_by("split").agg(pl.col("top1").mean(), pl.col("ratio").first())
        rows.append(
            {
                "level": level,
                "method": method,
                "ratio": mean["ratio"].mean(),
                "top1": mean["top1"].mean(),
                "half": found.half,
                "classes": found.n,
                "splits": len(mean),
            }
        )
    return pl.DataFrame(rows).sort("level", "method")
