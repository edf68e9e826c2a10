"""Copies: images that are seen in two splits, under two classes, or twice in one class.

The rule: of an image in two splits the copy in test is kept (then test_seen, valid, train; the other way round with
``--copy train``); an image under two classes of one split is kept in neither, since nobody knows which is right; of exact
copies within one class of one split the first is kept. Near copies within one class of one split stay: drawings of one
letter, or frames of one thing, may be alike.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from handful.audits.scan import BITS, exact_pairs, groups, near_pairs
from handful.repair.kinds import Entry, Repair
from handful.repair.look import Look

EVERY = 2e11
"""Comparisons that a search may take, some minutes: every image of a million is asked."""


class Copies(Repair):
    """Exact copies by digest, near copies by perceptual hash, thumbnail and colours."""

    name: ClassVar[str] = "duplicates"
    what: ClassVar[str] = "copies in two splits or under two classes are left out by a stated rule"
    cost: ClassVar[float] = 1.0

    def find(self, look: Look) -> list[Entry]:
        seen = look.scan
        first = exact_pairs(seen)
        exact = groups(len(look.collection), first)
        near, asked = near_pairs(seen, seen.rows, look.seed, EVERY)
        if not seen.complete:
            look.said.append(
                f"Copies were looked for among {len(seen.rows):,} of {len(look.collection):,} images in the time."
            )
        elif asked < len(seen.rows) - int(seen.constant.sum()) and seen.hashes.shape[1]:
            look.said.append(f"Near copies of {asked:,} of {len(seen.rows):,} images were looked for.")
        out: dict[int, Entry] = {}
        gone = {r for e in look.entries if e.action == "drop" and e.confirm for r in e.rows}
        for members in self._alike(exact, first):
            self._exact([r for r in members if r not in gone], look, out)
        place = {int(r): i for i, r in enumerate(seen.rows.tolist())}
        for a, b in near.tolist():
            apart = int((seen.hashes[place[a]] != seen.hashes[place[b]]).sum())
            self._near(a, b, apart, look, out, gone)
        return [out[r] for r in sorted(out)]

    @staticmethod
    def _alike(codes: np.ndarray, pairs: np.ndarray) -> list[list[int]]:
        """Images with one digest, two or more together."""
        members = np.unique(pairs)
        order = members[np.argsort(codes[members], kind="stable")]
        cuts = np.flatnonzero(np.diff(codes[order])) + 1
        return [g.tolist() for g in np.split(order, cuts) if len(g) > 1]

    def _exact(self, members: list[int], look: Look, out: dict[int, Entry]) -> None:
        rank, classes = look.rank, look.classes
        if len(members) < 2:
            return
        best = min(rank[m] for m in members)
        kept = [m for m in members if rank[m] == best]
        for m in members:
            if rank[m] > best:
                why = f"{look.called(m)} is an exact copy of {look.called(kept[0])}, which is kept"
                out[m] = self._drop(m, kept[0], why, 0)
        if len({int(classes[m]) for m in kept}) > 1:
            for m in kept:
                other = next(o for o in kept if classes[o] != classes[m])
                why = f"{look.called(m)} is an exact copy of {look.called(other)}: the same picture under two classes"
                out[m] = self._drop(m, other, why, 0)
        else:
            for m in kept[1:]:
                why = f"{look.called(m)} is an exact copy of {look.called(kept[0])}, the first, which is kept"
                out[m] = self._drop(m, kept[0], why, 0)

    def _near(self, a: int, b: int, apart: int, look: Look, out: dict[int, Entry], gone: set[int]) -> None:
        rank, classes = look.rank, look.classes
        if rank[a] != rank[b]:
            low, high = (a, b) if rank[a] > rank[b] else (b, a)
            if high not in gone:
                why = f"{look.called(low)} is a near copy of {look.called(high)}, which is kept"
                out.setdefault(low, self._drop(low, high, why, apart))
        elif classes[a] != classes[b]:
            for m, other in ((a, b), (b, a)):
                why = f"{look.called(m)} is a near copy of {look.called(other)}: nearly the same picture under two classes"
                out.setdefault(m, self._drop(m, other, why, apart))

    def _drop(self, row: int, other: int, why: str, apart: int) -> Entry:
        return self.entry("drop", why, f"bits apart of {BITS}", apart, [row], facts={"copy_of": other})
