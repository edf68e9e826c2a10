"""Binary vectors whose class is one of their bits: tasks with a known answer to how much the labels are needed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import ClassVar

import numpy as np

from handful.data.collection import Card, Collection, as_table
from handful.errors import BadInput, Infeasible
from handful.tasks import random
from handful.tasks.episode import Episode
from handful.tasks.rule import Rule


@dataclass(frozen=True)
class Bits(Rule):
    """Two classes, told apart by one bit of each vector (Centroid Networks, Appendix B.4).

    With ``dimension`` fixed a method can learn which bit it is; drawn anew for each task it cannot be known without
    labels. The appendix says 1/2 is the best accuracy then; that is the limit of many dimensions, and
    `majority_accuracy` the value at D.

    Parameters
    ----------
    dimension
        The bit that is the class, from 0; -1 to draw one for each task.
    support_size, queries
        Vectors in all, of any class.
    """

    dimension: int = -1
    support_size: int = 20
    queries: int = 30

    name: ClassVar[str] = "bits"

    def __post_init__(self) -> None:
        if self.support_size < 2 or self.queries < 1:
            raise BadInput("support_size must be at least 2 and queries at least 1")

    @cached_property
    def values(self) -> np.ndarray:
        return np.asarray(self.part.collection.read(self.part.rows))

    def check(self) -> None:
        if self.part.collection.card.kind != "features" or not np.isin(self.values, (0, 1)).all():
            raise Infeasible(
                f"{self.part.id} does not hold vectors of zeros and ones; make one with tasks.bits.vectors"
            )
        if not -1 <= self.dimension < self.values.shape[1]:
            raise Infeasible(f"{self.part.id} has {self.values.shape[1]} bits, not a bit {self.dimension}")
        if len(self.part) < self.support_size + self.queries:
            raise Infeasible(
                f"{self.part.id} has {len(self.part)} vectors, {self.support_size} + {self.queries} are needed"
            )

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        self.check()
        return [self._episode(seed, number) for number in range(start, stop)]

    def _episode(self, seed: int, number: int) -> Episode:
        at, bits = np.asarray([number]), self.values.shape[1]
        lots = random.words(seed, "bit", at, 1)[0]
        bit = int(random.below(lots, bits)[0]) if self.dimension < 0 else self.dimension
        order = np.argsort(random.words(seed, "vectors", at, len(self.part))[0])
        cut = self.support_size
        # A support in which one class is missing asks nothing; the first vector of the other class joins it.
        labels = self.values[order, bit].astype(np.int64)
        if len(set(labels[:cut].tolist())) < 2:
            other = np.flatnonzero(labels != labels[0])
            if not len(other):
                raise Infeasible(f"bit {bit} of {self.part.id} is the same everywhere; draw more vectors")
            order[[cut - 1, other[0]]] = order[[other[0], cut - 1]]
            labels = self.values[order, bit].astype(np.int64)
        end = cut + self.queries
        return Episode(
            number=number,
            support=self.part.rows[order[:cut]],
            support_labels=labels[:cut],
            query=self.part.rows[order[cut:end]],
            query_labels=labels[cut:end],
            shape=(2,),
            names=(("0", "1"),),
            side={"bit": bit},
            seed=random.subseed(seed, "learner", number),
        )


def vectors(dimensions: int, n: int = 1000, seed: int = 0) -> Collection:
    """A collection of random binary vectors, with train, valid and test parts of n vectors each."""
    if dimensions < 1 or n < 1:
        raise BadInput(f"dimensions and n must be at least 1, not {dimensions} and {n}")
    values = (random.words(seed, "bits", np.arange(3 * n), dimensions) >> np.uint64(63)).astype(np.float32)
    table = as_table({"bit": values[:, 0].astype(np.int64), "split": np.repeat(["train", "valid", "test"], n)})
    card = Card(
        f"bits{dimensions}", "features", (dimensions,), ("bit",), schemes=("split",), hash=f"{seed:032d}{n:032d}"
    )
    return Collection(card, table, values)


def majority_accuracy(dimensions: int) -> float:
    """The best unsupervised accuracy where the bit is drawn anew for each task, for an odd number of dimensions.

    Clustering by the majority of the bits agrees with each of them as often as one clustering can agree with all:
    1/2 + C(D-1, (D-1)/2) / 2^D.
    """
    if dimensions < 1 or dimensions % 2 == 0:
        raise BadInput(f"the majority of {dimensions} bits can be a tie; use an odd number")
    return 0.5 + comb(dimensions - 1, (dimensions - 1) // 2) / 2**dimensions
