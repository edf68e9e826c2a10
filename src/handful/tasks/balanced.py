"""N-way tasks in which the context tells nothing of the class, and images are drawn by their weights."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from handful.data.collection import Groups
from handful.errors import BadInput, Infeasible
from handful.tasks import random
from handful.tasks.episode import Episode
from handful.tasks.nway import NWay, shuffled

WEIGHT = "weight"
ATTEMPTS = 100


@dataclass(frozen=True)
class Balanced(NWay):
    """N classes, K support and Q query images per class, every class with the same numbers of images of each context.

    The mutual information of context and class is exactly zero within the support, and within the queries, of every task.
    Classes are drawn together with contexts that all of them have, so that no task that allows it is left out; without a
    context column, or with ``contexts=0``, contexts play no part. Images of a class (and context) are drawn in proportion to the
    column ``weight`` (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006), evenly where there is none.

    Parameters
    ----------
    ways, shots, queries
        As in n-way tasks.
    contexts
        Contexts in each task (never more than its shots); support and queries are spread evenly on them.
    column
        The column of contexts; the collection's own by default.
    """

    contexts: int = 1
    column: str = ""

    name: ClassVar[str] = "balanced"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.at_least(contexts=0)

    @cached_property
    def context_column(self) -> str:
        """The column of contexts; empty where they play no part."""
        card = self.part.collection.card
        column = self.column or card.context or ""
        if column in card.labels:
            raise BadInput(f"{column!r} is {card.name}'s label and cannot be its context; name another column")
        return column if self.contexts else ""

    @property
    def _spread(self) -> int:
        return max(1, min(self.contexts, self.shots, self.queries)) if self.context_column else 1

    @property
    def _held(self) -> int:
        """Images that a class must have of each context of its task."""
        return -(-self.shots // self._spread) + -(-self.queries // self._spread)

    @cached_property
    def _cells(self) -> tuple[Groups, np.ndarray]:
        """Image numbers by (class, context), and their counts (C, K)."""
        n, classes = self.part.n_classes, self.part.classes
        if not self.context_column:
            return self.part.members, self.part.members.sizes.reshape(n, 1)
        self.part.column(self.context_column)
        codes, names = self.part.codes((self.context_column,))
        groups = Groups.of(self.part.rows, classes * len(names) + codes, n * len(names))
        return groups, groups.sizes.reshape(n, len(names))

    @cached_property
    def _weights(self) -> np.ndarray | None:
        """Weight of each image of the cells, in their order."""
        table = self.part.collection.table
        if WEIGHT not in table.columns:
            return None
        try:
            found = table[WEIGHT][self._cells[0].values].cast(float).fill_null(1.0).to_numpy()
        except Exception as error:
            raise BadInput(f"{self.part.collection.card.name}: the column {WEIGHT!r} holds no numbers") from error
        if not (np.isfinite(found) & (found > 0)).all():
            raise BadInput(f"{self.part.collection.card.name}: the column {WEIGHT!r} must hold numbers above 0")
        return found

    def eligible(self) -> np.ndarray:
        """Classes that some task can have: beside enough others in enough contexts."""
        able = self._cells[1] >= self._held
        while True:
            shared = able & (able.sum(0) >= self.ways)
            shared &= (shared.sum(1) >= self._spread)[:, None]
            if (shared == able).all():
                return np.flatnonzero(able.any(1))
            able = shared

    def check(self) -> None:
        if len(self.eligible()) < self.ways:
            raise Infeasible(self._shortage())
        self.draw_block(0, 0, 8)

    def _shortage(self) -> str:
        where = f"{self._spread} contexts that {self.ways} classes share" if self.context_column else "its classes"
        return (
            f"{self.part.id} has {len(self.eligible())} classes with {self._held} images in each of {where}, {self.ways} are asked "
            "for; lower ways, shots, queries or contexts"
        )

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        classes = self.eligible()
        if len(classes) < self.ways:
            raise Infeasible(self._shortage())
        numbers = np.arange(start, stop)
        able = self._cells[1] >= self._held
        picked = np.zeros((len(numbers), self.ways), dtype=np.int64)
        shown = np.zeros((len(numbers), self._spread), dtype=np.int64)
        waiting = np.arange(len(numbers))
        for attempt in range(ATTEMPTS):
            lots = random.words(seed, f"classes/{attempt}", numbers[waiting], self.ways)
            some = classes[random.choose(lots, len(classes))]
            both = able[some].all(1)
            uneven = random.uniform(random.words(seed, f"contexts/{attempt}", numbers[waiting], both.shape[1]))
            order = np.argsort(np.where(both, uneven, 2.0), axis=1)[:, : self._spread]
            good = both.sum(1) >= self._spread
            picked[waiting[good]], shown[waiting[good]] = some[good], order[good]
            waiting = waiting[~good]
            if not len(waiting):
                return self._episodes(seed, numbers, picked, shown)
        raise Infeasible(f"{ATTEMPTS} drawings found no {self.ways} classes that share contexts; {self._shortage()}")

    def _episodes(self, seed: int, numbers: np.ndarray, picked: np.ndarray, shown: np.ndarray) -> list[Episode]:
        spread, held, n_contexts = self._spread, self._held, self._cells[1].shape[1]
        first = -(-self.shots // spread)
        slot, asked = np.arange(self.shots), np.arange(self.queries)
        names, (of_class, sets) = self.part.class_names, self.part.datasets
        labels = np.broadcast_to(np.arange(self.ways)[:, None], (self.ways, self.shots + self.queries))
        seeds = (random.words(seed, "learner", numbers, 1)[:, 0] >> np.uint64(1)).tolist()
        images = np.zeros((len(numbers), self.ways, spread, held), dtype=np.int64)
        for w in range(self.ways):
            for k in range(spread):
                images[:, w, k] = self._drawn(seed, f"{w}/{k}", numbers, picked[:, w] * n_contexts + shown[:, k], held)
        support = images[:, :, slot % spread, slot // spread]
        query = images[:, :, asked % spread, first + asked // spread]
        whole = np.broadcast_to(labels, (len(numbers), *labels.shape))
        support, support_labels = shuffled(seed, "support", numbers, support, whole[..., : self.shots])
        query, query_labels = shuffled(seed, "query", numbers, query, whole[..., self.shots :])
        return [
            Episode(
                number=int(number),
                support=support[i],
                support_labels=support_labels[i],
                query=query[i],
                query_labels=query_labels[i],
                shape=(self.ways,),
                names=(tuple([names[c] for c in picked[i].tolist()]),),
                side={"dataset": "+".join(sorted({sets[of_class[c]] for c in picked[i]}))},
                seed=seeds[i],
            )
            for i, number in enumerate(numbers.tolist())
        ]

    def _drawn(self, seed: int, stream: str, numbers: np.ndarray, cell: np.ndarray, held: int) -> np.ndarray:
        """``held`` images of each task's cell without replacement, likelier by weight, in random order."""
        groups, weights = self._cells[0], self._weights
        if weights is None:
            places = random.choose(random.words(seed, f"images/{stream}", numbers, held), groups.sizes[cell])
            return groups.values[groups.starts[cell][:, None] + places]
        out = np.zeros((len(numbers), held), dtype=np.int64)
        for i, (number, c) in enumerate(zip(numbers.tolist(), cell.tolist(), strict=True)):
            a, b = int(groups.starts[c]), int(groups.starts[c + 1])
            lots = random.uniform(random.words(seed, f"images/{stream}", np.asarray([number]), 2 * (b - a)))[0]
            # The smallest of exponential times with the weights as rates: a weighted draw without replacement.
            times = -np.log1p(-lots[: b - a]) / weights[a:b]
            chosen = np.argsort(times, kind="stable")[:held]
            # Likelier images come first, so that support and queries must be told apart by another lot.
            out[i] = groups.values[a + chosen[np.argsort(lots[b - a :][:held], kind="stable")]]
        return out
