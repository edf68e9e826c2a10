"""The search behind the builder: n classes that fit together, of as large a structural ratio as its moves find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from handful.data import bfs
from handful.data.taxonomy import Taxonomy
from handful.errors import Infeasible

Limit = tuple[NDArray[np.bool_], int]

# Closeness of candidates is held as one square; beyond this many, only the farthest from train are searched.
SQUARE = 6000
# Pairs are looked for around this many of the most promising candidates at a time.
FRONT = 24


@dataclass(frozen=True, eq=False)
class SplitCandidates:
    """Candidates as arrays.

    ``away`` is the distance to train, ``close`` one over the distance between two candidates (0 to itself), so that
    the structural ratio of a chosen set is the mean of away(c) * max close(c, others chosen).
    """

    away: NDArray[np.float64]
    close: NDArray[np.float32]
    related: NDArray[np.bool_]
    limits: tuple[Limit, ...]
    numbers: NDArray[np.int64]

    @classmethod
    def of(
        cls, taxonomy: Taxonomy, nodes: NDArray[np.int64], away: NDArray, limits: Sequence[Limit]
    ) -> SplitCandidates:
        kept = np.arange(len(nodes))
        if len(nodes) > SQUARE:
            kept = np.sort(np.argsort(-away, kind="stable")[:SQUARE])
        some = nodes[kept]
        apart = bfs.matrix(*taxonomy.around, some, some).astype(np.float32)
        close = np.divide(1, apart, out=np.zeros_like(apart), where=apart > 0)
        owner, node, _ = bfs.reach(*taxonomy.up, some)
        at = np.minimum(np.searchsorted(some, node), len(some) - 1)
        inside = some[at] == node
        related = np.eye(len(some), dtype=bool)
        related[owner[inside], at[inside]] = True
        return cls(away[kept], close, related | related.T, tuple((m[kept], c) for m, c in limits), kept)

    def solve(self, n: int) -> NDArray[np.int64]:
        """Positions of the chosen classes among the candidates: grown, then the weakest exchanged while that helps."""
        best = self.grow([], n)
        if len(best) < n:
            raise Infeasible(
                f"the search fits {len(best)} classes together (no relatives, caps kept), {n} are asked for; "
                "ask for fewer or relax a cap"
            )
        value, share = self.value(best), 0.2
        while share * n >= 2:
            chosen = np.array(best)
            worth = self.away[chosen] * self.close[np.ix_(chosen, chosen)].max(axis=1)
            keep = chosen[np.argsort(-worth, kind="stable")[: n - int(share * n)]]
            again = self.grow(keep.tolist(), n)
            if len(again) == n and self.value(again) > value + 1e-12:
                best, value = again, self.value(again)
            else:
                share /= 2
        return np.sort(self.numbers[best])

    @cached_property
    def peak(self) -> NDArray[np.float64]:
        """The most each candidate can contribute: beside its nearest unrelated candidate."""
        return self.away * np.where(self.related, 0, self.close).max(axis=1)

    def value(self, chosen: Sequence[int]) -> float:
        """The structural ratio of a chosen set."""
        return float((self.away[chosen] * self.close[np.ix_(chosen, chosen)].max(axis=1)).mean())

    def free(self, chosen: Sequence[int], ask: int = 1) -> NDArray[np.bool_]:
        """Who may still join, when ``ask`` come at once."""
        out = np.ones(len(self.away), dtype=bool)
        if len(chosen):
            out &= ~self.related[chosen].any(axis=0)
        for members, most in self.limits:
            if members[chosen].sum() + ask > most:
                out &= ~members
        return out

    def grow(self, start: list[int], n: int) -> list[int]:
        """Add classes, alone or in pairs, by what the sum of ratios gains a class, until ``n`` or until none fits."""
        chosen = list(start)
        near = self.close[chosen].max(axis=0) if chosen else np.zeros(len(self.away), np.float32)
        lift = np.zeros(len(self.away))
        for s in chosen:
            lift += self._pull(s, near[s])
        while len(chosen) < n:
            free = self.free(chosen)
            if not free.any():
                break
            single = np.where(free, self.away * near + lift, -np.inf)
            move, gain = [int(np.argmax(single))], float(single.max())
            if len(chosen) + 2 <= n:
                total, a, b = self._pair(self.free(chosen, ask=2), single, near)
                if total / 2 > gain:
                    move = [a, b]
            for c in move:
                closer = [s for s in chosen if self.close[c, s] > near[s]]
                for s in closer:
                    lift += self._pull(s, self.close[c, s]) - self._pull(s, near[s])
                near = np.maximum(near, self.close[c])
                lift += self._pull(c, near[c])
                chosen.append(c)
        return chosen

    def _pull(self, s: int, near: float) -> NDArray[np.float64]:
        """What the chosen class ``s`` would gain from each candidate that came nearer to it than ``near``."""
        return self.away[s] * np.maximum(self.close[s] - near, 0)

    def _pair(self, free: NDArray[np.bool_], single: NDArray, near: NDArray) -> tuple[float, int, int]:
        """The best two to add together, as (gain of both, one, other); minus infinity where no two fit."""
        best = (-np.inf, -1, -1)
        front = np.flatnonzero(free & (self.away * near < self.peak))
        front = front[np.argsort(-self.peak[front], kind="stable")[:FRONT]]
        for a in front.tolist():
            both = self.away[a] * np.maximum(self.close[a] - near[a], 0) + self.away * np.maximum(
                self.close[a] - near, 0
            )
            total = np.where(free & ~self.related[a], single[a] + single + both, -np.inf)
            b = int(np.argmax(total))
            if total[b] > best[0]:
                best = (float(total[b]), a, b)
        return best
