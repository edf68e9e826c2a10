"""Tasks that are a whole group of classes: every character of an alphabet, every breed of a species."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from handful.errors import Infeasible
from handful.tasks import random
from handful.tasks.episode import Episode
from handful.tasks.rule import Rule


@dataclass(frozen=True)
class WholeGroup(Rule):
    """All classes that share a value of one column, in turn: task i is group i modulo their number.

    Omniglot-CCN (Hsu, Lv, Kira, ICLR 2018) clusters each of the 20 evaluation alphabets whole: 20 to 47 ways, 20 images a
    class, no query: ``WholeGroup(part, group="alphabet", queries=0)`` inside a clustering rule.

    Parameters
    ----------
    group
        The column whose value a task's classes share.
    shots
        Support images per class; 0 for all that the queries leave, which may differ between classes.
    queries
        Query images per class; 0 where the support alone is asked about.
    """

    group: str = "alphabet"
    shots: int = 0
    queries: int = 5

    name: ClassVar[str] = "whole-group"

    def __post_init__(self) -> None:
        self.at_least(shots=0, queries=0)

    @cached_property
    def groups(self) -> tuple[list[np.ndarray], list[str]]:
        """The classes of each group with two classes or more, and the groups' names."""
        codes, names = self.part.codes((self.group,))
        of_class = np.full(self.part.n_classes, -1, dtype=np.int64)
        for c, g in np.unique(np.stack([self.part.classes, codes]), axis=1).T:
            if of_class[c] not in (-1, g):
                raise Infeasible(
                    f"class {self.part.class_names[c]} of {self.part.id} is in several values of {self.group!r}; "
                    "group by a column that every class has one value of"
                )
            of_class[c] = g
        found = [np.flatnonzero(of_class == g) for g in range(len(names))]
        return [c for c in found if len(c) > 1], [n[0] for n, c in zip(names, found, strict=True) if len(c) > 1]

    def check(self) -> None:
        classes, names = self.groups
        if not classes:
            raise Infeasible(f"no value of {self.group!r} in {self.part.id} has two classes or more")
        least = max(self.shots, 1) + self.queries
        sizes = self.part.members.sizes
        for own, name in zip(classes, names, strict=True):
            if sizes[own].min() < least:
                small = own[sizes[own].argmin()]
                raise Infeasible(
                    f"class {self.part.class_names[small]} of {self.group} {name} has {sizes[small]} images, "
                    f"{least} are needed; largest feasible: {int(sizes[own].min())} images per class (shots + queries)"
                )

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        self.check()
        return [self._episode(seed, number) for number in range(start, stop)]

    def _episode(self, seed: int, number: int) -> Episode:
        classes, names = self.groups
        own, members = classes[number % len(classes)], self.part.members
        at = np.asarray([number])
        largest = int(members.sizes[own].max())
        lots = random.words(seed, "images", at, len(own) * largest).reshape(len(own), largest)
        support, query = [], []
        for j, c in enumerate(own):
            images = members[c][np.argsort(lots[j, : members.sizes[c]], kind="stable")]
            last = len(images) if not self.shots else self.queries + self.shots
            query.append((images[: self.queries], j))
            support.append((images[self.queries : last], j))
        s, s_labels = self._mixed(seed, "support", at, support)
        q, q_labels = self._mixed(seed, "query", at, query)
        return Episode(
            number=number,
            support=s,
            support_labels=s_labels,
            query=q,
            query_labels=q_labels,
            shape=(len(own),),
            names=(tuple(self.part.class_names[c] for c in own),),
            side={self.group: names[number % len(classes)]},
            seed=random.subseed(seed, "learner", number),
        )

    @staticmethod
    def _mixed(
        seed: int, stream: str, at: np.ndarray, parts: list[tuple[np.ndarray, int]]
    ) -> tuple[np.ndarray, np.ndarray]:
        images = np.concatenate([i for i, _ in parts]).astype(np.int64)
        labels = np.concatenate([np.full(len(i), j, dtype=np.int64) for i, j in parts])
        order = np.argsort(random.words(seed, stream, at, max(len(images), 1))[0, : len(images)], kind="stable")
        return images[order], labels[order]
