"""Meta-Dataset's tasks: variable ways, and shots that differ between the classes of a task."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from handful.errors import BadInput, Infeasible, nearest
from handful.tasks import random
from handful.tasks.episode import Episode
from handful.tasks.rule import Rule, whole_range


@dataclass(frozen=True)
class MetaDataset(Rule):
    """Tasks of unequal classes, each inside one data set (Triantafillou et al., "Meta-Dataset", ICLR 2020, Section 3.2).

    With classes of the chosen data set drawn at random: ways uniform from 5 to 50 (or all classes); queries a class
    ``min(10, half of the smallest class)``; a support of ``min(500, sum_c ceil(b * min(100, |c| - q)))`` images, b uniform in
    (0, 1]; and class c gets ``floor(r_c * (support - ways)) + 1`` of them, with r_c proportional to ``|c| * exp(a_c)``, a_c
    uniform in [log 1/2, log 2).

    Meta-Dataset draws classes of ImageNet and Omniglot along their hierarchies; here they are drawn uniformly.

    Parameters
    ----------
    ways
        5 to 50.
    queries, support_size, per_class
        The three bounds above.
    datasets
        ``uniform`` draws a data set for each task, ``each`` takes them in turn.
    only
        Names of the data sets to draw from; all by default.
    """

    ways: int | tuple[int, int] = (5, 50)
    queries: int = 10
    support_size: int = 500
    per_class: int = 100
    datasets: str = "uniform"
    only: tuple[str, ...] = ()

    name: ClassVar[str] = "meta-dataset"

    def __post_init__(self) -> None:
        high = whole_range(self.ways, "ways", 2)[1]
        if min(self.queries, self.per_class) < 1 or self.support_size < high:
            raise BadInput(
                "queries and per_class must be at least 1, and support_size at least the largest number of ways"
            )
        if self.datasets not in ("uniform", "each"):
            raise BadInput(f"datasets must be 'uniform' or 'each', not {self.datasets!r}")

    @cached_property
    def pools(self) -> dict[str, np.ndarray]:
        """Classes of each data set with an image to show and one to ask."""
        of_class, sets = self.part.datasets
        for name in self.only:
            if name not in sets:
                raise Infeasible(f"{self.part.id} has no data set {name!r}; {nearest(name, sets)}")
        enough = self.part.members.sizes >= 2
        return {
            s: np.flatnonzero((of_class == d) & enough) for d, s in enumerate(sets) if not self.only or s in self.only
        }

    def check(self) -> None:
        low = whole_range(self.ways, "ways", 2)[0]
        for name, pool in self.pools.items():
            if len(pool) < low:
                raise Infeasible(
                    f"data set {name!r} of {self.part.id} has {len(pool)} classes with two images or more, {low} are "
                    f"needed; largest feasible: {len(pool)} ways"
                )

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        self.check()
        return [self._episode(seed, number) for number in range(start, stop)]

    def _episode(self, seed: int, number: int) -> Episode:
        low, high = whole_range(self.ways, "ways", 2)
        at, members, sets = np.asarray([number]), self.part.members, list(self.pools)
        lots = random.words(seed, "shape", at, 4)[0]
        which = number % len(sets) if self.datasets == "each" else int(random.below(lots[:1], len(sets))[0])
        pool = self.pools[sets[which]]
        ways = low + int(random.below(lots[1:2], min(high, len(pool)) - low + 1)[0])
        own = pool[random.choose(random.words(seed, "classes", at, ways), len(pool))[0]]
        sizes = members.sizes[own]
        queries = max(1, min(self.queries, int(sizes.min()) // 2))
        share = 1.0 - float(random.uniform(lots[2:3])[0])
        wanted = int(np.ceil(share * np.minimum(self.per_class, sizes - queries)).sum())
        total = min(self.support_size, wanted)
        alpha = np.log(0.5) + random.uniform(random.words(seed, "shots", at, ways)[0]) * np.log(4)
        weight = sizes * np.exp(alpha)
        shots = np.minimum((weight / weight.sum() * (total - ways)).astype(np.int64) + 1, sizes - queries)
        images = random.words(seed, "images", at, int(sizes.sum()))[0]
        support, query, used = [], [], 0
        for c, k in zip(own, shots, strict=True):
            order = np.argsort(images[used : used + members.sizes[c]], kind="stable")
            used += int(members.sizes[c])
            query.append(members[c][order[:queries]])
            support.append(members[c][order[queries : queries + k]])
        labels = np.arange(ways)
        s, s_labels = np.concatenate(support), np.repeat(labels, shots)
        q, q_labels = np.concatenate(query), np.repeat(labels, queries)
        first = np.argsort(random.words(seed, "support", at, len(s))[0])
        second = np.argsort(random.words(seed, "query", at, len(q))[0])
        return Episode(
            number=number,
            support=s[first],
            support_labels=s_labels[first],
            query=q[second],
            query_labels=q_labels[second],
            shape=(ways,),
            names=(tuple(self.part.class_names[c] for c in own),),
            side={"dataset": sets[which]},
            seed=int(lots[3] >> np.uint64(1)),
        )
