"""Splits rebuilt so that test classes ask for composition: far from training classes, near one another."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from handful.data.collection import Collection
from handful.repair.kinds import Entry, Repair
from handful.repair.look import Look
from handful.repair.relatives import ORDER, apart, lacking, tree_of

SWAPS = 400
"""Exchanges of two classes after which the search ends."""


class BestSplit(Repair):
    """The classes of train, valid and test exchanged until no exchange raises the structural ratio; the numbers of classes stay.

    The ratio of a test class is its distance to the nearest training class over that to the nearest other test class (Hascoet et
    al., "On zero-shot recognition of generic objects", CVPR 2019). No class ends up above or below one of another split. Scores on a
    rebuilt split are scores of another benchmark, so this is done only where the plan confirms it.
    """

    name: ClassVar[str] = "splits"
    what: ClassVar[str] = "classes are exchanged between splits until the structural ratio is largest"
    confirmed: ClassVar[bool] = False
    cost: ClassVar[float] = 0.5

    def missing(self, collection: Collection) -> str:
        return lacking(collection)

    def find(self, look: Look) -> list[Entry]:
        tree, current = tree_of(look), look.current
        held = {s: list(current.part(s).class_names) for s in ORDER if current.has(s)}
        names = [n for s in held for n in held[s]]
        sides = np.repeat(np.arange(len(held)), [len(v) for v in held.values()])
        splits = list(held)
        train, test = splits.index("train"), splits.index("test")
        if (sides == test).sum() < 2:
            return []
        far = apart(tree, names)
        kin = np.stack(
            [np.isin(names, tree.ids[tree.ancestors(n)]) | np.isin(names, tree.ids[tree.descendants(n)]) for n in names]
        )
        before = ratio(far, sides, train, test)
        after = exchanged(far, kin, sides, train, test)
        if ratio(far, after, train, test) <= before + 1e-9:
            return []
        value = ratio(far, after, train, test)
        rows, whole, out = look.rows, current.whole, []
        of_class = {name: rows[whole.members[c]] for c, name in enumerate(whole.class_names)}
        measure = f"structural ratio in {tree.source} after all exchanges ({before:.2f} before)"
        for i in np.flatnonzero(sides != after).tolist():
            why = f"{names[i]} moves from {splits[sides[i]]} to {splits[after[i]]} in the split of largest structural ratio"
            out.append(
                self.entry(
                    "move", why, measure, value, of_class[names[i]], to=splits[after[i]], facts={"class": names[i]}
                )
            )
        return out


def ratio(far: np.ndarray, sides: np.ndarray, train: int, test: int) -> float:
    """The structural ratio of a split, from the distances of its classes."""
    chosen, known = sides == test, sides == train
    among = far[np.ix_(chosen, chosen)] + np.where(np.eye(int(chosen.sum())) > 0, np.inf, 0)
    return float((far[np.ix_(chosen, known)].min(1) / among.min(1)).mean())


def exchanged(far: np.ndarray, kin: np.ndarray, sides: np.ndarray, train: int, test: int) -> np.ndarray:
    """Sides after exchanging, one pair at a time, the two classes whose exchange raises the ratio most.

    It starts from the given split and from one that takes whole neighbourhoods, and keeps the better end.
    """
    ends = [_climb(far, kin, start, train, test) for start in (sides, _neighbourhood(far, sides, test))]
    return max(ends, key=lambda end: _value(far, kin, end, train, test))


def _value(far: np.ndarray, kin: np.ndarray, sides: np.ndarray, train: int, test: int) -> float:
    """The ratio, less one for each pair of relatives in different splits."""
    crossed = kin & (sides[:, None] != sides[None])
    return ratio(far, sides, train, test) - float(crossed.sum()) / 2


def _neighbourhood(far: np.ndarray, sides: np.ndarray, test: int) -> np.ndarray:
    """A split whose test classes are the class farthest from all others, and those nearest to it."""
    n = int((sides == test).sum())
    seed = int(far.mean(1).argmax())
    wanted = np.argsort(far[seed], kind="stable")[:n]
    out, old = sides.copy(), np.flatnonzero(sides == test)
    joins, leaves = np.setdiff1d(wanted, old), np.setdiff1d(old, wanted)
    out[leaves], out[joins] = sides[joins], test
    return out


def _climb(far: np.ndarray, kin: np.ndarray, sides: np.ndarray, train: int, test: int) -> np.ndarray:
    now, value = sides.copy(), _value(far, kin, sides, train, test)
    for _ in range(SWAPS):
        best, move = value, None
        chosen = np.flatnonzero(now == test)
        # The test classes of smallest ratio are worth exchanging; all of them where there are few.
        among = far[np.ix_(chosen, chosen)] + np.where(np.eye(len(chosen)) > 0, np.inf, 0)
        own = far[np.ix_(chosen, np.flatnonzero(now == train))].min(1) / among.min(1)
        for a in chosen[np.argsort(own, kind="stable")[:12]].tolist():
            for b in np.flatnonzero(now != test).tolist():
                now[a], now[b] = now[b], now[a]
                found = _value(far, kin, now, train, test)
                now[a], now[b] = now[b], now[a]
                if found > best + 1e-12:
                    best, move = found, (a, b)
        if move is None:
            break
        a, b = move
        now[a], now[b] = now[b], now[a]
        value = best
    return now
