"""Tasks in which several factors could each be the class: which one is meant, only the labels say."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from handful.data.collection import Groups
from handful.errors import BadInput, Infeasible, nearest
from handful.tasks import random
from handful.tasks.episode import Episode
from handful.tasks.nway import shuffled
from handful.tasks.rule import Rule

_ROUNDS = 400


@dataclass(frozen=True)
class Crossed(Rule):
    """Every factor takes ``ways`` values within a task, balanced and independent of the others; one is the label.

    This is the image form of the binary vectors of Huang, Larochelle and Lacoste-Julien, "Are Few-Shot Learning
    Benchmarks too Simple?" (appendix B.4): with the label factor changing from task to task, nothing but the labels
    tells which of the equally good groupings is meant, so a method that does not see them cannot be right.

    Parameters
    ----------
    ways, shots, queries
        N values, K support and Q query images a value, for every factor at once.
    factors
        Columns of the collection, at least two; all combinations of their values must exist, as in
        ``world:crossed=true``.
    label
        The factor that is the class in every task; empty to draw one for each task.
    """

    ways: int = 5
    shots: int = 5
    queries: int = 15
    factors: tuple[str, ...] = ("glyph", "colour", "ground", "border")
    label: str = ""

    name: ClassVar[str] = "crossed"

    def __post_init__(self) -> None:
        self.at_least(ways=2, shots=1, queries=1)
        if len(self.factors) < 2 or len(set(self.factors)) < len(self.factors):
            raise BadInput(f"crossed tasks need at least two different factors, not {self.factors}")
        if self.label and self.label not in self.factors:
            raise BadInput(
                f"the label {self.label!r} is not among the crossed factors; {nearest(self.label, self.factors)}"
            )

    @cached_property
    def _grid(self) -> tuple[list[list[str]], Groups]:
        """The values of each factor, and the images of every combination of them, row-major."""
        codes, values = [], []
        for factor in self.factors:
            self.part.column(factor, np.empty(0, dtype=np.int64))
            code, tuples = self.part.codes((factor,))
            codes.append(code)
            values.append([t[0] for t in tuples])
        shape = tuple(len(v) for v in values)
        if np.prod([float(n) for n in shape]) > 50e6:
            raise Infeasible(f"{self.part.id}: {shape} values cannot all be crossed; use world:crossed=true")
        flat = np.ravel_multi_index(codes, shape)
        return values, Groups.of(self.part.rows, flat, int(np.prod(shape)))

    @cached_property
    def _copies(self) -> int:
        return int(self._grid[1].sizes.min())

    def check(self) -> None:
        values, members = self._grid
        for factor, known in zip(self.factors, values, strict=True):
            if len(known) < self.ways:
                raise Infeasible(f"{self.part.id} has {len(known)} values of {factor}, {self.ways} ways need as many")
        if self._copies < 1:
            missing = int((members.sizes == 0).sum())
            raise Infeasible(
                f"{self.part.id} lacks {missing} of the {len(members)} combinations of {', '.join(self.factors)}; "
                "use a crossed collection, such as world:crossed=true"
            )
        room = self._copies * self.ways ** (len(self.factors) - 1)
        if self.shots + self.queries > room:
            raise Infeasible(
                f"{self.part.id} has {room} images a value when {self.ways} values of {len(self.factors)} factors are "
                f"crossed, {self.shots} + {self.queries} are wanted; lower them, or raise the world's copies"
            )

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        self.check()
        numbers = np.arange(start, stop)
        values, members = self._grid
        n, ways, n_factors = len(numbers), self.ways, len(self.factors)
        if self.label:
            label = np.full(n, self.factors.index(self.label))
        else:
            label = random.below(random.words(seed, "label", numbers, 1)[:, 0], n_factors)
        chosen = [
            random.choose(random.words(seed, f"values/{f}", numbers, ways), len(v))
            for f, v in zip(self.factors, values, strict=True)
        ]
        # Place j of a set has the j-th value of every factor until each factor but the label is shuffled by itself.
        cells = np.empty((n, n_factors, ways * (self.shots + self.queries)), dtype=np.int64)
        for low, each, name in ((0, self.shots, "support"), (ways * self.shots, self.queries, "query")):
            high = low + ways * each
            for i, factor in enumerate(self.factors):
                lots = random.words(seed, f"{name}/{factor}", numbers, ways * each)
                lots[label == i] = np.arange(ways * each, dtype=np.uint64)
                cells[:, i, low:high] = np.argsort(lots, axis=1, kind="stable") // each
        picks = np.stack([np.take_along_axis(chosen[i], cells[:, i], 1) for i in range(n_factors)], axis=1)
        ranks = self._distinct(seed, numbers, label, picks)
        flat = np.ravel_multi_index(tuple(np.moveaxis(picks, 1, 0)), tuple(len(v) for v in values))
        offset = self._which_copy(seed, numbers, flat, ranks, members)
        images = members.values[members.starts[flat] + offset]
        answers = np.take_along_axis(cells, label[:, None, None], 1)[:, 0]
        cut = ways * self.shots
        support, support_labels = shuffled(seed, "support", numbers, images[:, :cut], answers[:, :cut])
        query, query_labels = shuffled(seed, "query", numbers, images[:, cut:], answers[:, cut:])
        seeds = (random.words(seed, "learner", numbers, 1)[:, 0] >> np.uint64(1)).tolist()
        return [
            Episode(
                number=int(number),
                support=support[i],
                support_labels=support_labels[i],
                query=query[i],
                query_labels=query_labels[i],
                shape=(ways,),
                names=(tuple(values[label[i]][v] for v in chosen[label[i]][i]),),
                side={"dataset": self.part.collection.card.name, "label": self.factors[label[i]]},
                seed=seeds[i],
            )
            for i, number in enumerate(numbers.tolist())
        ]

    def _distinct(self, seed: int, numbers: np.ndarray, label: np.ndarray, picks: np.ndarray) -> np.ndarray:
        """Swap values between places, in place, until no combination is used more often than it has images.

        Swaps of one factor inside the support or inside the query leave every factor balanced. Returns, for every
        place, how many places before it have the same combination.
        """
        sizes = tuple(len(v) for v in self._grid[0])
        cut, end = self.ways * self.shots, picks.shape[2]
        ranks = np.empty((len(numbers), end), dtype=np.int64)
        for task in range(len(numbers)):
            free = [i for i in range(len(sizes)) if i != label[task]]
            for turn in range(_ROUNDS):
                ranks[task] = _occurrence(np.ravel_multi_index(tuple(picks[task]), sizes))
                over = np.flatnonzero(ranks[task] >= self._copies)
                if not len(over):
                    break
                lots = random.words(seed, f"swap/{turn}", numbers[task : task + 1], 2 * len(over))[0]
                for place, which, partner in zip(over, lots[: len(over)], lots[len(over) :], strict=True):
                    factor = free[int(which % np.uint64(len(free)))]
                    low, high = (0, cut) if place < cut else (cut, end)
                    other = low + int(partner % np.uint64(high - low))
                    a, b = picks[task, factor, place], picks[task, factor, other]
                    picks[task, factor, place], picks[task, factor, other] = b, a
            else:
                raise Infeasible(
                    f"{self.part.id}: no arrangement of {self.shots} + {self.queries} images a value was found with "
                    f"{self._copies} images a combination; lower them, or raise the world's copies"
                )
        return ranks

    def _which_copy(
        self, seed: int, numbers: np.ndarray, flat: np.ndarray, ranks: np.ndarray, members: Groups
    ) -> np.ndarray:
        """A different image for each use of a combination, starting at a random one."""
        begin = random.words(seed, "copy", numbers, 1).astype(np.uint64)
        turn = random.below(random.mix(begin ^ random.mix(flat.astype(np.uint64))), members.sizes[flat])
        return (turn + ranks) % members.sizes[flat]


def _occurrence(values: np.ndarray) -> np.ndarray:
    """How many equal values come before each place."""
    order = np.argsort(values, kind="stable")
    new = np.concatenate([[True], values[order][1:] != values[order][:-1]])
    first = np.maximum.accumulate(np.where(new, np.arange(len(values)), 0))
    out = np.empty(len(values), dtype=np.int64)
    out[order] = np.arange(len(values)) - first
    return out
