"""Any-way any-shot tasks, each inside one data set of a collection that may hold many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from handful.errors import Infeasible
from handful.tasks import random
from handful.tasks.episode import Episode
from handful.tasks.rule import Rule, whole_range

_ONE = np.uint64(1)


@dataclass(frozen=True)
class AnyWay(Rule):
    """Ways and shots drawn uniformly from ranges (Cross-Domain MetaDL: ways 2-20, shots 1-20, 20 queries per class).

    A task's classes belong to one data set. ``datasets="uniform"`` draws a data set for each task; ``"each"`` takes
    them in turn, so that n tasks are n / D from each (the competition's meta-test). Shots are capped by the smallest
    drawn class less the queries; ways by the data set's number of usable classes.
    """

    ways: int | tuple[int, int] = (2, 20)
    shots: int | tuple[int, int] = (1, 20)
    queries: int = 20
    datasets: Literal["uniform", "each"] = "uniform"

    name: ClassVar[str] = "any-way"

    def __post_init__(self) -> None:
        whole_range(self.ways, "ways", 2)
        whole_range(self.shots, "shots", 1)
        self.at_least(queries=1)

    def pools(self) -> list[np.ndarray]:
        """Usable classes of each data set: those with queries plus the fewest shots."""
        of_class, sets = self.part.datasets
        enough = self.part.members.sizes >= self.queries + whole_range(self.shots, "shots")[0]
        return [np.flatnonzero((of_class == d) & enough) for d in range(len(sets))]

    def check(self) -> None:
        fewest, sets = whole_range(self.ways, "ways")[0], self.part.datasets[1]
        for pool, dataset in zip(self.pools(), sets, strict=True):
            if len(pool) < fewest:
                sizes = np.sort(self.part.members.sizes[self.part.datasets[0] == sets.index(dataset)])[::-1]
                at = int(sizes[fewest - 1]) if len(sizes) >= fewest else 0
                raise Infeasible(
                    f"data set {dataset!r} of {self.part.id} has {len(pool)} classes with "
                    f"{whole_range(self.shots, 'shots')[0]} + {self.queries} images, {fewest} are needed; largest feasible: "
                    f"{len(pool)} ways, or {at} images per class (shots + queries) at {fewest} ways"
                )

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        pools, sets = self.pools(), self.part.datasets[1]
        low, high = whole_range(self.ways, "ways")
        if min(len(p) for p in pools) < low:
            self.check()
        few, many = whole_range(self.shots, "shots")
        numbers, members = np.arange(start, stop), self.part.members
        lots = random.words(seed, "shape", numbers, 4)
        which = random.below(lots[:, 0], len(sets)) if self.datasets == "uniform" else numbers % len(sets)
        sizes = np.asarray([len(p) for p in pools])
        high = min(high, int(sizes.max()))
        ways = low + random.below(lots[:, 1], np.minimum(sizes[which], high) - low + 1)
        shots = few + random.below(lots[:, 2], many - few + 1)

        # Drawn at the largest shape and cut: the first picks do not depend on how many follow.
        padded = np.zeros((len(pools), int(sizes.max())), dtype=np.int64)
        for d, pool in enumerate(pools):
            padded[d, : len(pool)] = pool
        lanes = random.words(seed, "classes", numbers, high)
        picked = padded[which[:, None], np.minimum(random.choose(lanes, sizes[which]), sizes[which, None] - 1)]
        used = np.arange(high) < ways[:, None]
        smallest = np.where(used, members.sizes[picked], np.iinfo(np.int64).max).min(1)
        shots = np.minimum(shots, smallest - self.queries)
        each = many + self.queries
        lanes = random.words(seed, "images", numbers, high * each).reshape(len(numbers), high, each)
        places = np.minimum(random.choose(lanes, members.sizes[picked]), members.sizes[picked][..., None] - 1)
        images = members.values[members.starts[picked][..., None] + places]
        order = random.words(seed, "order", numbers, high * each)
        return [
            self._episode(
                int(n), picked[i, :w], images[i, :w], order[i], int(k), sets[which[i]], int(lots[i, 3] >> _ONE)
            )
            for i, (n, w, k) in enumerate(zip(numbers, ways, shots, strict=True))
        ]

    def _episode(
        self, n: int, picked: np.ndarray, images: np.ndarray, order: np.ndarray, shots: int, dataset: str, own: int
    ) -> Episode:
        support, query = images[:, :shots], images[:, shots : shots + self.queries]
        labels = np.arange(len(picked))
        first, second = np.argsort(order[: support.size]), np.argsort(order[-query.size :])
        return Episode(
            number=n,
            support=support.ravel()[first],
            support_labels=np.repeat(labels, shots)[first],
            query=query.ravel()[second],
            query_labels=np.repeat(labels, self.queries)[second],
            shape=(len(picked),),
            names=(tuple(self.part.class_names[c] for c in picked),),
            side={"dataset": dataset},
            seed=own,
        )
