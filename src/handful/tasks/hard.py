"""Tasks of classes that are easily confused, at a chosen difficulty."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from handful.errors import BadInput
from handful.tasks import random
from handful.tasks.episode import Episode
from handful.tasks.nearness import nearness
from handful.tasks.nway import NWay, draw_blocks


@dataclass(frozen=True)
class Hard(NWay):
    """N-way K-shot tasks of a class and classes near it.

    A first class is drawn at random, the others from the classes nearest to it. Images are drawn as `NWay` draws them, so
    that only the choice of classes differs.

    Parameters
    ----------
    difficulty
        0: any classes, as `NWay` has them; 1: the nearest ones; between, the pool of classes shrinks evenly.
    near
        How near two classes are: ``pixels`` (their mean images), ``words:FILE`` (vectors of their names), ``tree:FILE``
        (``tree:wordnet``, or child,parent rows) or ``matrix:FILE`` (a .npy over the part's classes, larger is nearer, from any
        encoder).
    """

    difficulty: float = 0.8
    near: str = "pixels"

    name: ClassVar[str] = "hard"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.difficulty <= 1:
            raise BadInput(f"difficulty must be between 0 and 1, not {self.difficulty!r}")

    @cached_property
    def _order(self) -> np.ndarray:
        """Eligible classes by nearness to each eligible class, itself first; as places among the eligible."""
        classes = self.eligible()
        near = nearness(self.part, self.near)[np.ix_(classes, classes)]
        np.fill_diagonal(near, np.inf)
        return np.argsort(-near, axis=1, kind="stable")

    def check(self) -> None:
        super().check()
        _ = self._order

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        classes = self.eligible()
        if len(classes) < self.ways:
            self.check()
        numbers = np.arange(start, stop)
        others = len(classes) - 1
        pool = round(others - self.difficulty * (others - (self.ways - 1)))
        lots = random.words(seed, "classes", numbers, self.ways)
        first = random.below(lots[:, 0], len(classes))
        picks = 1 + random.choose(lots[:, 1:], pool)
        among = np.concatenate([first[:, None], np.take_along_axis(self._order[first], picks, 1)], 1)
        # In a random order: the first class of a task is not its centre.
        places = np.argsort(random.words(seed, "places", numbers, self.ways), axis=1)
        return draw_blocks(self, seed, numbers, classes, np.take_along_axis(among, places, 1))
