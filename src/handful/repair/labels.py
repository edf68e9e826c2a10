"""Likely label errors: images whose features say another class than their label, listed for a person to confirm."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np

from handful.data.collection import Collection
from handful.repair.confident import confident, doubted, out_of_fold
from handful.repair.kinds import Entry, Repair
from handful.repair.look import Look

AT_ONCE = 256
FEWEST = 8
"""Images of a class below which nothing is said of its labels."""
NEIGHBOURS = 10
MARGIN = 0.95
PURE = 0.6
"""Share of the images that are confidently counted under a class which carry its label, below which nothing is suggested of it."""
AGREE, OWN = 0.5, 0.2


class WrongLabels(Repair):
    """Confident learning on out-of-fold predictions over frozen features, seconded by the nearest neighbours.

    A label is doubted where another class leads by half of all probability, and where of the ten nearest images at most one carries the given
    label and half the other. Of classes that the features cannot tell (two fifths of the images confidently counted under the class carry
    another label) nothing is said. Listed, and left out only where the plan says ``confirm = true``: a hard
    image and a wrong label look alike to a net.
    """

    name: ClassVar[str] = "labels"
    what: ClassVar[str] = "likely label errors are listed, and left out where the plan confirms it"
    confirmed: ClassVar[bool] = False
    cost: ClassVar[float] = 4.0

    def missing(self, collection: Collection) -> str:
        return "" if collection.whole.n_classes > 1 else "there is one class only"

    def find(self, look: Look) -> list[Entry]:
        out: list[Entry] = []
        for rows in self._pools(look):
            out += self._among(look, rows)
        return sorted(out, key=lambda e: -e.evidence)

    def _pools(self, look: Look) -> list[np.ndarray]:
        """Images of each split, those that are kept first first, as many of every class alike as the time can embed."""
        gone = {r for e in look.entries if e.action == "drop" and e.confirm for r in e.rows}
        left = np.setdiff1d(np.arange(len(look.collection)), np.fromiter(gone, dtype=np.int64, count=len(gone)))
        end = time.monotonic() + 0.9 * look.context.seconds
        rng = np.random.default_rng([look.seed, 0x1ABE])
        pools, used = [], 0
        for rank in np.unique(look.rank[left]):
            rows = rng.permutation(left[look.rank[left] == rank])
            classes = look.classes[rows]
            sizes = np.bincount(classes)
            order = np.argsort(classes, kind="stable")
            turn = np.empty(len(rows), dtype=np.int64)
            turn[order] = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            # Every class in turn, so that whatever the time allows is a like share of each.
            rows = rows[np.lexsort((turn,))]
            rows = rows[sizes[look.classes[rows]] >= FEWEST]
            done = 0
            while done < len(rows) and time.monotonic() < end:
                look.context.view.read(rows[done : done + AT_ONCE])
                done += AT_ONCE
            rows = np.sort(rows[:done])
            rows = rows[np.bincount(look.classes[rows])[look.classes[rows]] >= FEWEST] if len(rows) else rows
            if len(rows) and len(np.unique(look.classes[rows])) > 1:
                pools.append(rows)
                used += len(rows)
        if used < len(left):
            look.said.append(
                f"Labels were looked at of {used:,} of {len(left):,} images (classes of fewer than {FEWEST} are passed over)."
            )
        return pools

    def _among(self, look: Look, rows: np.ndarray) -> list[Entry]:
        values, given = np.unique(look.classes[rows], return_inverse=True)
        given = given.reshape(-1)
        x = look.context.view.read(rows)
        p = out_of_fold(x, given, look.seed)
        found, pure = doubted(p, given, MARGIN, MARGIN), purity(p, given)
        weak = int((pure < PURE).sum())
        if weak:
            split = f" of {look.splits[rows[0]]}" if look.splits[rows[0]] else ""
            look.said.append(
                f"Nothing is said of the labels of {weak} of {len(pure)} classes{split}: the features tell them too rarely."
            )
        names = look.collection.whole.class_names
        own, other = neighbours(x, given, found.at, found.suggested)
        out = []
        for i, at in enumerate(found.at.tolist()):
            told = pure[found.suggested[i]] >= PURE and pure[given[at]] >= PURE
            if told and own[i] <= OWN and other[i] >= AGREE:
                suggested = int(values[found.suggested[i]])
                why = f"{look.called(int(rows[at]))} looks like {names[suggested]}"
                facts = {"suggested": names[suggested], "neighbours": round(float(other[i]), 2)}
                out.append(
                    self.entry(
                        "drop",
                        why,
                        "probability of the likelier class less that of the label",
                        found.margin[i],
                        [rows[at]],
                        facts=facts,
                    )
                )
        return out


def purity(p: np.ndarray, given: np.ndarray) -> np.ndarray:
    """For each class: of the images confidently counted under it, the share that carry its label; 0 where there are none."""
    found = confident(p, given, MARGIN)
    counted = np.bincount(found[found >= 0], minlength=p.shape[1])
    right = np.bincount(given[found == given], minlength=p.shape[1])
    return right / np.maximum(counted, 1)


def neighbours(
    x: np.ndarray, given: np.ndarray, at: np.ndarray, suggested: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Shares of the nearest images (by cosine of centred features) that carry the given label, and the suggested one."""
    unit = np.asarray(x, dtype=np.float32) - np.mean(x, axis=0, keepdims=True)
    unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-9)
    own, other = np.zeros(len(at)), np.zeros(len(at))
    k = min(NEIGHBOURS, len(x) - 1)
    for start in range(0, len(at), 512):
        some = at[start : start + 512]
        near = unit[some] @ unit.T
        near[np.arange(len(some)), some] = -np.inf
        best = np.argpartition(-near, k - 1, axis=1)[:, :k]
        own[start : start + 512] = (given[best] == given[some][:, None]).mean(1)
        other[start : start + 512] = (given[best] == suggested[start : start + 512][:, None]).mean(1)
    return own, other
