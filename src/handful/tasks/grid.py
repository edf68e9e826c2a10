"""The pairs of a part as a grid of two kinds of primitives, and drawings of pairs that share none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from handful.data.collection import Groups, Part
from handful.errors import BadInput


@dataclass(frozen=True, eq=False)
class Grid:
    """The pairs of a part: primitive numbers of each class, and the class of each cell (-1 where there is none)."""

    names: tuple[list[str], list[str]]
    pairs: np.ndarray
    number: np.ndarray
    members: Groups

    @classmethod
    def of(cls, part: Part) -> Grid:
        kept = part.__dict__.get("_grid")
        if kept is None:
            kept = part.__dict__["_grid"] = cls._make(part)
        return kept

    @classmethod
    def _make(cls, part: Part) -> Grid:
        columns = part.collection.card.labels
        if len(columns) != 2:
            raise BadInput(
                f"{part.collection.card.name} has {len(columns)} label column{'s' if len(columns) > 1 else ''} "
                f"({', '.join(columns)}); pair tasks need a collection labelled by two, such as world:label=colour+glyph"
            )
        codes, names = zip(*(part.codes((column,)) for column in columns), strict=True)
        pairs = np.zeros((part.n_classes, 2), dtype=np.int64)
        pairs[part.classes] = np.stack(codes, 1)
        number = np.full((len(names[0]), len(names[1])), -1, dtype=np.int64)
        number[pairs[:, 0], pairs[:, 1]] = np.arange(len(pairs))
        if (number >= 0).sum() < len(pairs):
            raise BadInput(
                f"{part.collection.card.name}: several data sets of this part hold the same pair, which would be two classes; "
                "drop the column 'dataset' or keep each primitive in one data set"
            )
        return cls(([n[0] for n in names[0]], [n[0] for n in names[1]]), pairs, number, part.members)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.names[0]), len(self.names[1])

    def pick(self, axis: int, rows: np.ndarray) -> tuple[str, ...]:
        names = self.names[axis]
        return tuple([names[r] for r in rows.tolist()])

    def matching(self, usable: np.ndarray) -> int:
        """The largest number of usable pairs that share no primitive."""
        from scipy.sparse import csr_matrix
        from scipy.sparse.csgraph import maximum_bipartite_matching

        pairs = self.pairs[usable]
        graph = csr_matrix((np.ones(len(pairs), dtype=np.int8), (pairs[:, 0], pairs[:, 1])), shape=self.shape)
        return int((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum())


def matchings(lots: np.ndarray, pairs: np.ndarray, shape: tuple[int, int], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Step 1 for every row at once: n pairs without a shared primitive, and whether that many were found.

    The smallest random word among the pairs that fit is a uniform draw among them, which is what drawing again and again
    until one fits comes to.
    """
    rows = np.arange(len(lots))
    free = np.ones((2, len(lots), max(shape)), dtype=bool)
    chosen = np.zeros((len(lots), n), dtype=np.int64)
    whole = np.ones(len(lots), dtype=bool)
    never = np.uint64(2**64 - 1)
    for j in range(n):
        fits = free[0][:, pairs[:, 0]] & free[1][:, pairs[:, 1]]
        pick = np.where(fits, lots, never).argmin(1)
        whole &= fits[rows, pick]
        chosen[:, j] = pick
        free[0][rows, pairs[pick, 0]] = False
        free[1][rows, pairs[pick, 1]] = False
    return chosen, whole
