"""Context-shift tasks: the same classes and the same support, queries from shared, new or conflicting contexts."""

from __future__ import annotations

import dataclasses
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from handful.data.collection import Groups
from handful.errors import BadInput, Infeasible
from handful.tasks import random
from handful.tasks.episode import Episode
from handful.tasks.nway import shuffled
from handful.tasks.rule import Rule

ATTEMPTS = 100


@dataclass(frozen=True)
class ContextShift(Rule):
    """Concept x context tasks (Zhang, Li, Wu, Kuang, "MetaCoCo", ICLR 2024, section 4).

    Each class shows its support in ``contexts`` contexts, different ones for different classes as far as there are
    enough. A query of a class is then drawn from the class's own support contexts (iid), from contexts in which no
    class of the task has support (ood), or from the support contexts of other classes (ood-conflict). For one seed all
    three draw the same classes and the same support, and ``shift`` replaces the first shift · queries of every class,
    so that two rules or two settings of the dial differ in those queries alone.

    Parameters
    ----------
    ways, shots, queries
        Classes; support and query images per class. The paper does not give the number of queries; 15 is the custom.
    shift
        The dial: the share of shifted queries, 0 (all iid) to 1 (all ood or conflicting).
    contexts
        Support contexts of a class (never more than its shots); its support and iid queries are spread evenly on them.
    conflict
        Draw only tasks in which conflicting queries exist as well. False serves collections of two contexts, at the
        price of a support that differs from that of `OODConflict`.
    column
        The column of contexts; the collection's own by default.
    shared
        All classes of a task show their support in the same contexts, so that a context says nothing about the class: what iid
        queries gain from contexts that differ by class is gone. Conflicting queries do not exist then, and ``conflict`` has no say.
    """

    ways: int = 5
    shots: int = 5
    queries: int = 15
    shift: float = 1.0
    contexts: int = 1
    conflict: bool = True
    column: str = ""
    shared: bool = field(default=False, metadata={"later": True})

    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "contexts")
    target: ClassVar[Literal["new", "conflicting"]] = "new"

    def __post_init__(self) -> None:
        self.at_least(ways=2, shots=1, queries=1, contexts=1)
        if not 0 <= self.shift <= 1:
            raise BadInput(f"shift must lie between 0 (iid) and 1 (shifted), not {self.shift!r}")
        if self.target == "conflicting" and not self.conflict:
            raise BadInput("ood-conflict draws conflicting queries; leave conflict at true, or use the rule ood")
        if self.target == "conflicting" and self.shared:
            raise BadInput(
                "classes that share their contexts have no conflicting queries; use the rule ood, or shared=false"
            )

    # what there is

    @property
    def context_column(self) -> str:
        card = self.part.collection.card
        column = self.column or card.context
        if not column:
            raise Infeasible(
                f"{card.name} has no column of contexts, which {self.name} tasks need; name one with column="
            )
        if column in card.labels:
            raise BadInput(f"{column!r} is {card.name}'s label and cannot be its context; name another column")
        return column

    @cached_property
    def _cells(self) -> tuple[Groups, np.ndarray, np.ndarray]:
        """Image numbers by (class, context), their counts (C, K), and the contexts' names."""
        self.part.column(self.context_column)
        codes, names = self.part.codes((self.context_column,))
        n = self.part.n_classes
        groups = Groups.of(self.part.rows, self.part.classes * len(names) + codes, n * len(names))
        return groups, groups.sizes.reshape(n, len(names)), np.asarray([name[0] for name in names])

    @property
    def _conflicts(self) -> bool:
        return self.conflict and not self.shared

    @property
    def _spread(self) -> int:
        return min(self.contexts, self.shots)

    @property
    def _held(self) -> int:
        """Images that a support context of a class must hold: its share of the shots and of the iid queries."""
        return -(-self.shots // self._spread) + -(-self.queries // self._spread)

    @cached_property
    def left_out(self) -> dict[str, str]:
        """Classes that are never drawn, each with the reason."""
        counts, names = self._cells[1], self.part.class_names
        able = counts >= self._held
        why: dict[int, str] = {}
        for c in np.flatnonzero(able.sum(1) < self._spread).tolist():
            few = "no context" if self._spread == 1 else f"fewer than {self._spread} contexts"
            why[c] = f"{few} with {self._held} images"
        while True:
            kept = np.asarray([c not in why for c in range(len(counts))])
            found = len(why)
            shown = able & kept[:, None]
            for c in np.flatnonzero(kept).tolist():
                own = np.sort(counts[c][able[c]])[: self._spread].sum()
                if counts[c].sum() - own < self.queries * (1 + self._conflicts):
                    why[c] = f"fewer than {self.queries * (1 + self._conflicts)} images beside its support contexts"
                elif self._conflicts:
                    others = np.delete(shown, c, 0).any(0)
                    smallest = np.sort(np.where(others, counts[c], 0)[able[c]])[: self._spread].sum()
                    if counts[c][others].sum() - smallest < self.queries:
                        why[c] = f"fewer than {self.queries} images in contexts of other classes"
            if len(why) == found:
                return {names[c]: why[c] for c in sorted(why)}

    def eligible(self) -> np.ndarray:
        out = self.left_out
        return np.asarray([c for c, name in enumerate(self.part.class_names) if name not in out], dtype=np.int64)

    def check(self) -> None:
        if len(self.eligible()) < self.ways:
            raise Infeasible(self._shortage())
        self.draw_block(0, 0, 8)
        if self.left_out:
            said = [f"{name} ({why})" for name, why in self.left_out.items()]
            more = f" and {len(said) - 8} more" if len(said) > 8 else ""
            warnings.warn(
                f"{self.part.id}: classes left out of {self.name} tasks: {', '.join(said[:8])}{more}", stacklevel=2
            )

    def _shortage(self) -> str:
        n, said = len(self.eligible()), [f"{name} ({why})" for name, why in self.left_out.items()]
        text = (
            f"{self.part.id} has {n} classes that can serve {self.name} tasks of {self.shots} + {self.queries} images "
            f"a class, {self.ways} are asked for; left out: {', '.join(said[:6])}{', ...' if len(said) > 6 else ''}"
        )
        for queries in range(self.queries - 1, 0, -1):
            if len(dataclasses.replace(self, queries=queries).eligible()) >= self.ways:
                return f"{text}; it can with queries={queries}"
        return f"{text}; lower ways or shots, or raise contexts"

    # drawing

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        classes = self.eligible()
        if len(classes) < self.ways:
            raise Infeasible(self._shortage())
        numbers = np.arange(start, stop)
        picked = np.zeros((len(numbers), self.ways), dtype=np.int64)
        shown = np.zeros((len(numbers), self.ways, self._spread), dtype=np.int64)
        waiting = np.arange(len(numbers))
        for attempt in range(ATTEMPTS):
            some, contexts, good = self._attempt(seed, numbers[waiting], attempt, classes)
            picked[waiting[good]], shown[waiting[good]] = some[good], contexts[good]
            waiting = waiting[~good]
            if not len(waiting):
                return self._episodes(seed, numbers, picked, shown)
        raise Infeasible(
            f"{self.part.id}: {ATTEMPTS} drawings found no {self.ways} classes whose contexts serve {self.name} tasks "
            f"of {self.shots} + {self.queries} images per class; lower ways or queries"
            + ("" if self.target == "conflicting" or not self._conflicts else ", or set conflict=false")
        )

    def _attempt(
        self, seed: int, numbers: np.ndarray, attempt: int, classes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Classes (T, W) and support contexts (T, W, spread) of each task, and whether they can serve all queries."""
        counts, ways, spread = self._cells[1], self.ways, self._spread
        n_contexts = counts.shape[1]
        picked = classes[random.choose(random.words(seed, f"classes/{attempt}", numbers, ways), len(classes))]
        cells = counts[picked]
        order = np.argsort(random.words(seed, f"reserve/{attempt}", numbers, n_contexts), axis=1)
        free = ~self._reserve(cells, order)
        lots = random.uniform(random.words(seed, f"contexts/{attempt}", numbers, ways * n_contexts))
        lots = lots.reshape(len(numbers), ways, n_contexts)
        uses = np.zeros((len(numbers), n_contexts))
        shown = np.zeros((len(numbers), ways, spread), dtype=np.int64)
        good = np.ones(len(numbers), dtype=bool)
        able = (cells >= self._held) & free[:, None, :]
        if self.shared:
            able, lots = (np.broadcast_to(x, able.shape) for x in (able.all(1, keepdims=True), lots[:, :1]))
        for w in range(ways):
            # Contexts that fewer classes of the task have come first, ties by lot: as many different ones as there are.
            rank = np.where(able[:, w], uses + lots[:, w], np.inf)
            shown[:, w] = np.argsort(rank, axis=1)[:, :spread]
            good &= able[:, w].sum(1) >= spread
            if not self.shared:
                np.put_along_axis(uses, shown[:, w], np.take_along_axis(uses, shown[:, w], 1) + 1, 1)
        new, conflicting = self._elsewhere(shown, n_contexts)
        good &= ((cells * new).sum(2) >= self.queries).all(1)
        if self._conflicts:
            good &= ((cells * conflicting).sum(2) >= self.queries).all(1)
        return picked, shown, good

    def _reserve(self, cells: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Contexts (T, K) kept free of support: as few as give every class its new-context queries, in random order."""
        tasks, _, n_contexts = cells.shape
        rows = np.arange(tasks)
        held = np.zeros((tasks, n_contexts), dtype=bool)
        got = np.zeros(cells.shape[:2], dtype=np.int64)
        left = (cells >= self._held).sum(2)
        for k in order.T:
            here = cells[rows, :, k]
            helps = ((got < self.queries) & (here > 0)).any(1)
            after = left - (here >= self._held)
            take = helps & (after >= self._spread).all(1)
            held[rows[take], k[take]] = True
            got[take] += here[take]
            left[take] = after[take]
        return held

    @staticmethod
    def _elsewhere(shown: np.ndarray, n_contexts: int) -> tuple[np.ndarray, np.ndarray]:
        """For each task and class: which contexts no class has support in, and which only other classes have."""
        own = np.zeros((*shown.shape[:2], n_contexts), dtype=bool)
        np.put_along_axis(own, shown, True, 2)
        used = own.any(1, keepdims=True)
        return np.broadcast_to(~used, own.shape), used & ~own

    def _episodes(self, seed: int, numbers: np.ndarray, picked: np.ndarray, shown: np.ndarray) -> list[Episode]:
        groups, counts, context_names = self._cells
        tasks, ways, spread, n_contexts = len(numbers), self.ways, self._spread, counts.shape[1]
        cell = picked[..., None] * n_contexts + shown
        lots = random.words(seed, "images", numbers, ways * spread * self._held).reshape(
            tasks, ways, spread, self._held
        )
        images = groups.values[groups.starts[cell][..., None] + random.choose(lots, groups.sizes[cell])]
        first = -(-self.shots // spread)
        slot, query_slot = np.arange(self.shots), np.arange(self.queries)
        support = images[:, :, slot % spread, slot // spread]
        support_contexts = shown[:, :, slot % spread]
        query = images[:, :, query_slot % spread, first + query_slot // spread]
        query_contexts = shown[:, :, query_slot % spread]
        if self.shift > 0:
            other, other_contexts = self._shifted(seed, numbers, picked, shown)
            share = self.shift * self.queries
            chance = random.uniform(random.words(seed, "dial", numbers, ways))
            many = np.floor(share) + (chance < share - np.floor(share))
            moved = query_slot < many[..., None]
            query, query_contexts = np.where(moved, other, query), np.where(moved, other_contexts, query_contexts)
        return self._wrap(seed, numbers, picked, support, support_contexts, query, query_contexts, context_names)

    def _shifted(
        self, seed: int, numbers: np.ndarray, picked: np.ndarray, shown: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Images (T, W, Q) of each class outside its support contexts, uniform over the images there, and their contexts."""
        groups, counts, _ = self._cells
        new, conflicting = self._elsewhere(shown, counts.shape[1])
        sizes = counts[picked] * (new if self.target == "new" else conflicting)
        ends = sizes.cumsum(2)
        lots = random.words(seed, self.target, numbers, self.ways * self.queries)
        place = random.choose(lots.reshape(len(numbers), self.ways, self.queries), ends[..., -1])
        context = (ends[:, :, None, :] <= place[..., None]).sum(3)
        within = place - np.take_along_axis(ends - sizes, context, 2)
        return groups.values[groups.starts[picked[..., None] * counts.shape[1] + context] + within], context

    def _wrap(
        self,
        seed: int,
        numbers: np.ndarray,
        picked: np.ndarray,
        support: np.ndarray,
        support_contexts: np.ndarray,
        query: np.ndarray,
        query_contexts: np.ndarray,
        context_names: np.ndarray,
    ) -> list[Episode]:
        names = self.part.class_names
        labels = np.arange(self.ways)[:, None]
        # Label and context travel through one shuffle as one number.
        tags = labels * len(context_names)
        support, support_tags = shuffled(seed, "support", numbers, support, tags + support_contexts)
        query, query_tags = shuffled(seed, "query", numbers, query, tags + query_contexts)
        seeds = (random.words(seed, "learner", numbers, 1)[:, 0] >> np.uint64(1)).tolist()
        of_class, sets = self.part.datasets
        n = len(context_names)
        return [
            Episode(
                number=int(number),
                support=support[i],
                support_labels=support_tags[i] // n,
                query=query[i],
                query_labels=query_tags[i] // n,
                shape=(self.ways,),
                names=(tuple([names[c] for c in picked[i].tolist()]),),
                side={
                    "dataset": "+".join(sorted({sets[of_class[c]] for c in picked[i]})),
                    "shift": float(self.shift),
                    "support_contexts": context_names[support_tags[i] % n],
                    "query_contexts": context_names[query_tags[i] % n],
                },
                seed=seeds[i],
            )
            for i, number in enumerate(numbers.tolist())
        ]


@dataclass(frozen=True)
class IID(ContextShift):
    """Queries in the contexts of their own class's support."""

    shift: float = 0.0

    name: ClassVar[str] = "iid"


@dataclass(frozen=True)
class OOD(ContextShift):
    """Queries in contexts in which no class of the task has support."""

    name: ClassVar[str] = "ood"


@dataclass(frozen=True)
class OODConflict(ContextShift):
    """Queries in the support contexts of other classes, never of their own."""

    name: ClassVar[str] = "ood-conflict"
    target: ClassVar[Literal["new", "conflicting"]] = "conflicting"
