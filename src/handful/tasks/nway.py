"""Fixed N-way K-shot tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from handful.errors import Infeasible
from handful.tasks import random
from handful.tasks.episode import Episode
from handful.tasks.rule import Rule


@dataclass(frozen=True)
class NWay(Rule):
    """N classes, K support and Q query images per class (Vinyals et al., Matching Networks, NIPS 2016).

    Classes with fewer than K + Q images are never drawn. With several data sets in the collection, classes are drawn
    from all of them together; use `AnyWay` for tasks that stay inside one.
    """

    ways: int = 5
    shots: int = 5
    queries: int = 15

    name: ClassVar[str] = "n-way"

    def __post_init__(self) -> None:
        self.at_least(ways=2, shots=1, queries=1)

    def eligible(self) -> np.ndarray:
        return np.flatnonzero(self.part.members.sizes >= self.shots + self.queries)

    def check(self) -> None:
        classes = self.eligible()
        if len(classes) < self.ways:
            raise Infeasible(shortage(self, len(classes)))

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        classes = self.eligible()
        if len(classes) < self.ways:
            self.check()
        return draw_blocks(self, seed, np.arange(start, stop), classes)


def draw_blocks(
    rule: NWay, seed: int, numbers: np.ndarray, classes: np.ndarray, among: np.ndarray | None = None
) -> list[Episode]:
    """Episodes of one fixed shape for many task numbers at once; ``among`` are the places of their classes in ``classes``."""
    members, names = rule.part.members, rule.part.class_names
    ways, shots, each = rule.ways, rule.shots, rule.shots + rule.queries
    if among is None:
        among = random.choose(random.words(seed, "classes", numbers, ways), len(classes))
    picked = classes[among]
    lots = random.words(seed, "images", numbers, ways * each).reshape(len(numbers), ways, each)
    places = random.choose(lots, members.sizes[picked])
    images = members.values[members.starts[picked][..., None] + places]
    labels = np.broadcast_to(np.arange(ways)[:, None], (len(numbers), ways, each))
    support, support_labels = shuffled(seed, "support", numbers, images[..., :shots], labels[..., :shots])
    query, query_labels = shuffled(seed, "query", numbers, images[..., shots:], labels[..., shots:])
    seeds = (random.words(seed, "learner", numbers, 1)[:, 0] >> np.uint64(1)).tolist()
    of_class, sets = rule.part.datasets
    single = len(sets) == 1
    return [
        Episode(
            number=int(number),
            support=support[i],
            support_labels=support_labels[i],
            query=query[i],
            query_labels=query_labels[i],
            shape=(ways,),
            names=(tuple([names[c] for c in picked[i].tolist()]),),
            side={"dataset": sets[0] if single else "+".join(sorted({sets[of_class[c]] for c in picked[i]}))},
            seed=seeds[i],
        )
        for i, number in enumerate(numbers.tolist())
    ]


def shuffled(
    seed: int, stream: str, numbers: np.ndarray, images: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of every task in a random order, so that a place in the list tells nothing."""
    images, labels = images.reshape(len(numbers), -1), labels.reshape(len(numbers), -1)
    order = np.argsort(random.words(seed, stream, numbers, images.shape[1]), axis=1)
    return np.take_along_axis(images, order, 1), np.take_along_axis(labels, order, 1)


def shortage(rule: NWay, n_eligible: int) -> str:
    """Why a fixed-shape rule cannot be served, with the largest numbers that can."""
    part, each = rule.part, rule.shots + rule.queries
    sizes = part.members.sizes
    order = np.argsort(-sizes, kind="stable")
    small = [f"{part.class_names[c]} ({sizes[c]})" for c in np.argsort(sizes, kind="stable") if sizes[c] < each]
    largest = int(sizes[order[rule.ways - 1]]) if part.n_classes >= rule.ways else 0
    fits = f"largest feasible: {n_eligible} ways with {each} images per class"
    if largest > 1:
        fits += f", or {largest} images per class (shots + queries) at {rule.ways} ways"
    text = f"{part.id} has {n_eligible} classes with the {rule.shots} + {rule.queries} images that {rule.ways}-way tasks need"
    if small:
        text += f"; too small: {', '.join(small[:8])}{', ...' if len(small) > 8 else ''}"
    return f"{text}; {fits}"
