"""Build a test split that asks for composition: filters in order, then a consistent set of classes of maximal R."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from handful.audits.zero_shot.bound import upper_bound
from handful.audits.zero_shot.choice import SplitCandidates
from handful.data import bfs
from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput, Infeasible
from handful.metrics.structure import structural_ratio


@dataclass(frozen=True)
class Filter:
    """One row of Table 4: the classes it keeps, by name."""

    name: str
    keep: frozenset[str]
    manual: bool = False

    @classmethod
    def dropping(cls, name: str, candidates: Sequence[str], drop: Sequence[str], *, manual: bool = True) -> Filter:
        """Keep all but a list: classes of wrong scale or shape, or that exclude each other by no rule of the graph."""
        return cls(name, frozenset(candidates) - frozenset(drop), manual)


@dataclass(frozen=True)
class Step:
    """What one filter did."""

    name: str
    manual: bool
    before: int
    after: int

    @property
    def removed(self) -> float:
        """Share of what came in that went out, the last column of Table 4."""
        return 1 - self.after / self.before if self.before else 0.0


@dataclass(frozen=True)
class Built:
    """A built split: its classes, its R, a proven upper bound of R over all allowed sets, and the steps to it."""

    classes: tuple[str, ...]
    ratio: float
    bound: float
    steps: tuple[Step, ...]

    @property
    def gap(self) -> float:
        """How far below the bound R is, as a share of the bound."""
        return 1 - self.ratio / self.bound

    def __str__(self) -> str:
        lines = [f"{'step':<28}{'before':>8}{'after':>8}{'removed':>9}"]
        lines += [
            f"{s.name + (' (manual)' if s.manual else ''):<28}{s.before:>8}{s.after:>8}{s.removed:>8.1%}"
            for s in self.steps
        ]
        found = f"{len(self.classes)} classes, R = {self.ratio:.3f}"
        lines.append(f"{found}; no allowed set exceeds {self.bound:.3f} (gap {self.gap:.1%})")
        return "\n".join(lines)


def build(
    taxonomy: Taxonomy,
    train: Sequence[str],
    candidates: Sequence[str],
    n: int,
    *,
    filters: Sequence[Filter] = (),
    exclude: Sequence[str] = (),
    cap: Mapping[str, int] | None = None,
    exclusive: Sequence[Sequence[str]] = (),
) -> Built:
    """Choose ``n`` structurally consistent classes of maximal structural ratio (section 6.1, Appendix F).

    Parameters
    ----------
    filters : applied in order, each counted.
    exclude : branches (ids, or words that name one) whose classes are dropped, such as ``person``.
    cap : branch -> how many of its classes may be chosen.
    exclusive : lists of classes of which at most one may be chosen, though no path says that they exclude each other.

    Notes
    -----
    Consistent: no chosen class is above or below another or a training class. A class contributes
    a(c) / (distance to the nearest other chosen), so classes far from train are worth choosing together with a near
    one: moves add one class or a pair, whichever gains more a class, then the weakest are exchanged while that helps.
    """
    a = taxonomy.index(train, where="train")
    left = np.unique(taxonomy.index(candidates, where="candidates"))
    steps = []

    def take(name: str, keep: NDArray[np.bool_], manual: bool = False) -> None:
        nonlocal left
        steps.append(Step(name, manual, len(left), int(keep.sum())))
        left = left[keep]

    take("not a training class", ~np.isin(left, a))
    for one in filters:
        take(one.name, np.array([i in one.keep for i in taxonomy.ids[left].tolist()], dtype=bool), one.manual)
    for branch in exclude:
        root = find_branch(taxonomy, branch)
        take(
            f"not under {branch}", ~np.isin(left, np.append(taxonomy.descendants(np.array([root])), root)), manual=True
        )
    kin = np.isin(left, taxonomy.ancestors(a)) | np.isin(left, taxonomy.descendants(a))
    take("no relative in train", ~kin)
    limits: list[tuple[NDArray[np.bool_], int]] = []
    for branch, most in (cap or {}).items():
        if most < 0:
            raise BadInput(f"the cap of {branch} is {most}; give zero or more")
        root = find_branch(taxonomy, branch)
        limits.append((np.isin(left, np.append(taxonomy.descendants(np.array([root])), root)), most))
    for group in exclusive:
        limits.append((np.isin(left, taxonomy.index(list(group), where="exclusive")), 1))
    if n < 2:
        raise BadInput(f"a split of {n} classes has no structural ratio; ask for two or more")
    if len(left) < n:
        raise Infeasible(
            f"{len(left)} candidates are left after the filters, {n} are asked for; relax a filter or ask for fewer"
        )
    away = bfs.levels(*taxonomy.around, a)[left].astype(float)
    if (away == bfs.UNREACHED).any():
        lost = taxonomy.ids[left[away == bfs.UNREACHED]]
        raise BadInput(f"{len(lost)} candidates have no path to a training class ({lost[0]}); leave them out")
    chosen = SplitCandidates.of(taxonomy, left, away, limits).solve(n)
    classes = tuple(taxonomy.ids[np.sort(left[chosen])].tolist())
    return Built(
        classes=classes,
        ratio=structural_ratio(taxonomy, train, classes).value,
        bound=upper_bound(taxonomy, left, away, limits, n),
        steps=tuple(steps),
    )


def find_branch(taxonomy: Taxonomy, name: str) -> int:
    """The node of an id, or of a word: of several it names, the one with most classes below."""
    if name in taxonomy:
        return int(taxonomy.index(name)[0])
    named = [i for i, words in enumerate(taxonomy.all_words) if name.lower() in (w.lower() for w in words)]
    if not named:
        raise BadInput(f"no branch is called {name!r} in {taxonomy.source}; give an id or one of its words")
    return max(named, key=lambda i: (len(taxonomy.descendants(np.array([i]))), -i))


def pick_images(
    labels: Sequence[str] | NDArray,
    classes: Sequence[str],
    *,
    each: int = 100,
    good: NDArray | None = None,
    seed: int = 0,
) -> NDArray[np.int64]:
    """``each`` images of every class, of the ``good`` ones if given, so that all classes weigh the same (Appendix F)."""
    named = np.asarray(labels).astype(str)
    allowed = np.ones(len(named), dtype=bool) if good is None else np.asarray(good, dtype=bool)
    rng = np.random.default_rng([seed, 0x1A6E])
    out = []
    for name in classes:
        rows = np.flatnonzero((named == name) & allowed)
        if len(rows) < each:
            raise Infeasible(
                f"{name} has {len(rows)} images of quality, {each} are asked for; ask for fewer or leave it out"
            )
        out.append(np.sort(rng.permutation(rows)[:each]))
    return np.concatenate(out) if out else np.zeros(0, np.int64)
