"""Learn from some classes, answer for others by their names: base-to-new, and from one data set to another."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from handful.errors import BadInput, Infeasible, nearest
from handful.tasks import random
from handful.tasks.episode import Episode
from handful.tasks.nway import NWay, draw_blocks


@dataclass(frozen=True)
class BaseToNew(NWay):
    """Base-to-new generalisation (Zhou et al., "Conditional prompt learning for vision-language models", CVPR 2022).

    The classes of the part fall into two halves by their order, base and new. A task's support shows images of base classes; it asks
    about other images of these, and about images of new classes, of which the learner knows the names alone. Base queries are
    answered among the base classes, new ones among the new.

    Parameters
    ----------
    ways
        Number of base classes in each task, and of new ones; 0 for all of each half, as published.
    """

    ways: int = 5
    shots: int = 4
    queries: int = 15

    name: ClassVar[str] = "base-to-new"

    def __post_init__(self) -> None:
        if self.ways:
            super().__post_init__()
        else:
            self.at_least(shots=1, queries=1)

    @property
    def shows(self) -> frozenset[str]:
        return frozenset({"images", "labels", "texts"})

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("base-to-new",)

    @cached_property
    def halves(self) -> tuple[np.ndarray, np.ndarray]:
        """Class numbers of the base and of the new classes."""
        middle = (self.part.n_classes + 1) // 2
        return np.arange(middle), np.arange(middle, self.part.n_classes)

    @cached_property
    def served(self) -> tuple[np.ndarray, np.ndarray]:
        """Those that have images enough: new classes need no support."""
        sizes = self.part.members.sizes
        base, new = self.halves
        return base[sizes[base] >= self.shots + self.queries], new[sizes[new] >= self.queries]

    def check(self) -> None:
        for words, each, classes in zip(
            ("base", "new"), (self.shots + self.queries, self.queries), self.served, strict=True
        ):
            if len(classes) < max(2, self.ways):
                raise Infeasible(
                    f"{self.part.id} has {len(classes)} {words} classes with the {each} images that {self.name} tasks need of each, "
                    f"of {max(2, self.ways)}; ask for fewer ways, shots or queries"
                )

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        self.check()
        numbers = np.arange(start, stop)
        base, new = (
            draw_blocks(self._of(shots, classes), random.subseed(seed, words) if words else seed, numbers, classes)
            for shots, classes, words in zip((self.shots, 0), self.served, ("", "new"), strict=True)
        )
        return [self._both(seed, a, b) for a, b in zip(base, new, strict=True)]

    def _of(self, shots: int, classes: np.ndarray) -> NWay:
        plain = NWay(self.part, self.ways or len(classes), 1, self.queries)
        object.__setattr__(plain, "shots", shots)  # new classes have no support, which no rule of its own may ask for
        return plain

    def _both(self, seed: int, base: Episode, new: Episode) -> Episode:
        ways = base.shape[0]
        query = np.concatenate([base.query, new.query])
        labels = np.concatenate([base.query_labels, new.query_labels + ways])
        order = np.argsort(random.words(seed, "both", np.asarray([base.number]), len(query))[0], kind="stable")
        return dataclasses.replace(
            base,
            query=query[order],
            query_labels=labels[order],
            shape=(ways + new.shape[0],),
            names=((*base.names[0], *new.names[0]),),
            shows=self.shows,
            seen=np.arange(ways + new.shape[0]) < ways,
        )


@dataclass(frozen=True)
class CrossDataset(BaseToNew):
    """Cross-data-set transfer (Zhou et al., CVPR 2022): learn from classes of one data set, answer for those of the others by name.

    Parameters
    ----------
    source
        The data set (a value of the collection's column ``dataset``) whose classes are the base; the first by default.
    """

    source: str = ""

    name: ClassVar[str] = "cross-dataset"

    @cached_property
    def halves(self) -> tuple[np.ndarray, np.ndarray]:
        of_class, sets = self.part.datasets
        if len(sets) < 2:
            raise BadInput(f"{self.part.id} holds one data set; cross-dataset needs two or more (a column 'dataset')")
        if self.source and self.source not in sets:
            raise BadInput(f"{self.part.id} has no data set {self.source!r}; {nearest(self.source, sets)}")
        base = of_class == sets.index(self.source or sets[0])
        return np.flatnonzero(base), np.flatnonzero(~base)
