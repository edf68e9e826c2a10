"""Meta-Dataset's tasks: variable ways, and shots that differ between the classes of a task."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from handful.data.collection import Groups
from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput, Infeasible, nearest
from handful.tasks import random
from handful.tasks.episode import Episode
from handful.tasks.hierarchy import groups, id_column, read_tree, subtrees, value_of_class
from handful.tasks.rule import Rule, whole_range

CHUNK = 64
LANES = 1 << 22


@dataclass(frozen=True)
class Pool:
    """The classes of one data set, and the sets of them that a task's classes are drawn from."""

    classes: np.ndarray
    spans: list[np.ndarray]
    names: list[str]
    kind: str


@dataclass(frozen=True)
class MetaDataset(Rule):
    """Tasks of unequal classes, each inside one data set (Triantafillou et al., "Meta-Dataset", ICLR 2020, Section 3.2).

    Ways are uniform from 5 to 50 (or all classes there are). Then, with ``|c|`` the images of class c,

    - q = min(10, half of the smallest class) queries per class;
    - S = min(500, sum_c ceil(b * min(100, |c| - q))) support images, b uniform in (0, 1];
    - class c gets min(floor(r_c * (S - ways)) + 1, |c| - q) of them, r_c proportional to |c| * exp(a_c), a_c uniform in
      [log 1/2, log 2).

    Classes with fewer than two images are never drawn. With ``group``, an alphabet (say) is drawn uniformly first and the
    classes are its characters; with ``tree``, a node of the taxonomy that spans ``leaves`` classes at most and the fewest
    ways at least is drawn uniformly, and the classes are all leaves below it (50 of them where there are more). These are
    the paper's ways of drawing from Omniglot and from ImageNet.

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
    group
        A column (``alphabet``) whose value the classes of a task share. Values with too few classes are not drawn; data
        sets without any value are drawn from as if there were no group.
    tree
        ``wordnet``, or a CSV of child,parent rows, or a saved taxonomy.
    ids
        The column of the classes' ids in the tree; ``wnid`` if there is one, else the last label column.
    leaves
        The largest sub-tree to draw: 392, the smallest number that reaches every class of ImageNet's training split.
    flat
        The share of tasks that ignore group or tree (0 in the paper, an option of its public code).
    """

    ways: int | tuple[int, int] = (5, 50)
    queries: int = 10
    support_size: int = 500
    per_class: int = 100
    datasets: Literal["uniform", "each"] = "uniform"
    only: tuple[str, ...] = ()
    group: str = ""
    tree: str = ""
    ids: str = ""
    leaves: int = 392
    flat: float = 0.0

    name: ClassVar[str] = "meta-dataset"

    def __post_init__(self) -> None:
        high = whole_range(self.ways, "ways", 2)[1]
        if min(self.queries, self.per_class) < 1 or self.support_size < high:
            raise BadInput(
                "queries and per_class must be at least 1, and support_size at least the largest number of ways"
            )
        if self.group and self.tree:
            raise BadInput("classes are drawn by group or by tree, not by both; mix two rules for two data sets")
        if not 0 <= self.flat <= 1:
            raise BadInput(f"flat is a share of the tasks between 0 and 1, not {self.flat}")

    @property
    def parameters(self) -> dict[str, Any]:
        """A tree is named by what it holds, not by where its file is."""
        return {**super().parameters, **({"tree": self.taxonomy.id} if self.tree else {})}

    @cached_property
    def taxonomy(self) -> Taxonomy:
        return read_tree(self.tree)

    @cached_property
    def pools(self) -> dict[str, Pool]:
        """Of each data set, the classes with an image to show and one to ask, and what tasks are drawn from."""
        of_class, sets = self.part.datasets
        for name in self.only:
            if name not in sets:
                raise Infeasible(f"{self.part.id} has no data set {name!r}; {nearest(name, sets)}")
        enough = self.part.members.sizes >= 2
        low = whole_range(self.ways, "ways", 2)[0]
        return {
            s: self._pool(np.flatnonzero((of_class == d) & enough), low)
            for d, s in enumerate(sets)
            if not self.only or s in self.only
        }

    def _pool(self, classes: np.ndarray, low: int) -> Pool:
        if self.tree and len(classes):
            column = id_column(self.part, self.ids)
            return Pool(classes, *subtrees(self.part, self.taxonomy, column, classes, low, self.leaves), "tree")
        if self.group and (value_of_class(self.part, self.group)[classes] != "").any():
            return Pool(classes, *groups(self.part, self.group, classes, low), "group")
        return Pool(classes, [classes], [""], "")

    def check(self) -> None:
        low = whole_range(self.ways, "ways", 2)[0]
        for name, pool in self.pools.items():
            if len(pool.classes) < low:
                raise Infeasible(
                    f"data set {name!r} of {self.part.id} has {len(pool.classes)} classes with two images or more, {low} "
                    f"are needed; largest feasible: {len(pool.classes)} ways"
                )
            if not pool.spans:
                what = (
                    f"no value of {self.group!r} has"
                    if pool.kind == "group"
                    else f"no node of {self.taxonomy.source} spans {low} to {self.leaves} of its classes, none has"
                )
                raise Infeasible(f"data set {name!r} of {self.part.id}: {what} the {low} classes that {low} ways need")

    @cached_property
    def _table(self) -> tuple[Groups, np.ndarray, np.ndarray, np.ndarray, list[str]]:
        """All spans behind one another: their classes; of each, whether it is taken whole, and its name; of each data set,
        its first span (the one with all classes) and how many follow."""
        spans: list[np.ndarray] = []
        whole: list[bool] = []
        names: list[str] = []
        first, count = [], []
        for pool in self.pools.values():
            first.append(len(spans))
            own = pool.spans if pool.kind else []
            spans += [pool.classes, *own]
            whole += [False, *[pool.kind == "tree"] * len(own)]
            names += ["", *(pool.names if pool.kind else [])]
            count.append(len(own))
        keys = np.repeat(np.arange(len(spans)), [len(s) for s in spans])
        table = Groups.of(np.concatenate(spans), keys, len(spans))
        return table, np.asarray(whole), np.asarray(first), np.asarray(count), names

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        self.check()
        return [
            episode
            for low in range(start, stop, CHUNK)
            for episode in self._chunk(seed, np.arange(low, min(low + CHUNK, stop)))
        ]

    def _chunk(self, seed: int, numbers: np.ndarray) -> list[Episode]:
        members, sets = self.part.members, list(self.pools)
        lots = random.words(seed, "shape", numbers, 4)
        which = numbers % len(sets) if self.datasets == "each" else random.below(lots[:, 0], len(sets))
        span, own, ways = self._classes(seed, numbers, which, lots[:, 1])
        used = np.arange(own.shape[1]) < ways[:, None]
        sizes = np.where(used, members.sizes[own], 0)
        smallest = np.where(used, sizes, np.iinfo(np.int64).max).min(1)
        queries = np.maximum(1, np.minimum(self.queries, smallest // 2))
        shots = self._shots(seed, numbers, sizes, used, queries, 1.0 - random.uniform(lots[:, 2]))
        asked = np.where(used, queries[:, None], 0)
        images = _drawn(seed, numbers, members, own, sizes, asked, shots)
        episodes, names, spans = [], self.part.class_names, self._table[4]
        for i, number in enumerate(numbers.tolist()):
            (s, s_labels), (q, q_labels) = images[i]
            side = {"dataset": sets[which[i]]}
            if spans[span[i]]:
                side["span"] = spans[span[i]]
            episodes.append(
                Episode(
                    number=number,
                    support=s,
                    support_labels=s_labels,
                    query=q,
                    query_labels=q_labels,
                    shape=(int(ways[i]),),
                    names=(tuple(names[c] for c in own[i, : ways[i]].tolist()),),
                    side=side,
                    seed=int(lots[i, 3] >> np.uint64(1)),
                )
            )
        return episodes

    def _classes(
        self, seed: int, numbers: np.ndarray, which: np.ndarray, lot: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For every task its span, its classes (padded to the most ways) and how many of them count."""
        low, high = whole_range(self.ways, "ways", 2)
        table, whole, first, count, _ = self._table
        lots = random.words(seed, "span", numbers, 2)
        related = (count[which] > 0) & (random.uniform(lots[:, 1]) >= self.flat)
        span = first[which] + np.where(related, 1 + random.below(lots[:, 0], np.maximum(count[which], 1)), 0)
        there = table.sizes[span]
        most = np.minimum(high, there)
        ways = np.where(whole[span], most, low + random.below(lot, most - low + 1))
        # Drawn at the most ways that any task may have, whatever this block holds: the first picks do not depend on it.
        lanes = random.words(seed, "classes", numbers, min(high, int(table.sizes.max())))
        picks = np.minimum(random.choose(lanes, there), there[:, None] - 1)
        return span, table.values[table.starts[span][:, None] + picks], ways

    def _shots(
        self,
        seed: int,
        numbers: np.ndarray,
        sizes: np.ndarray,
        used: np.ndarray,
        queries: np.ndarray,
        share: np.ndarray,
    ) -> np.ndarray:
        left = np.where(used, sizes - queries[:, None], 0)
        wanted = np.ceil(share[:, None] * np.minimum(self.per_class, left)).sum(1)
        total = np.minimum(self.support_size, wanted)
        alpha = np.log(0.5) + random.uniform(random.words(seed, "shots", numbers, sizes.shape[1])) * np.log(4)
        weight = sizes * np.exp(alpha)
        spare = (total - used.sum(1))[:, None]
        shots = (weight / weight.sum(1, keepdims=True) * spare).astype(np.int64) + 1
        return np.minimum(shots, left)


Side = tuple[np.ndarray, np.ndarray]


def _drawn(
    seed: int,
    numbers: np.ndarray,
    members: Groups,
    own: np.ndarray,
    sizes: np.ndarray,
    asked: np.ndarray,
    shots: np.ndarray,
) -> list[tuple[Side, Side]]:
    """Support and query of every task: each class's images in a random order, queries first, then the support.

    All classes of all tasks are put in order by one sort of (class of the block, random word).
    """
    if sizes.sum() > LANES and len(numbers) > 1:
        half = len(numbers) // 2
        parts = [slice(0, half), slice(half, None)]
        return [side for p in parts for side in _drawn(seed, numbers[p], members, own[p], sizes[p], asked[p], shots[p])]
    rows = sizes.sum(1)
    words = random.words(seed, "images", numbers, int(rows.max()))
    words = words[np.arange(words.shape[1]) < rows[:, None]]
    segment = np.repeat(np.arange(sizes.size), sizes.ravel())
    begin = np.concatenate([[0], np.cumsum(sizes.ravel())])[segment]
    order = np.lexsort((words, segment))
    rank = np.arange(len(order)) - begin
    images = members.values[members.starts[own.ravel()[segment]] + order - begin]
    row, label = segment // sizes.shape[1], segment % sizes.shape[1]
    first = asked.ravel()[segment]
    query = rank < first
    support = ~query & (rank < first + shots.ravel()[segment])
    sides = [
        _mixed(seed, stream, numbers, images[keep], label[keep], np.bincount(row[keep], minlength=len(numbers)))
        for stream, keep in (("support", support), ("query", query))
    ]
    return list(zip(*sides, strict=True))


def _mixed(
    seed: int, stream: str, numbers: np.ndarray, images: np.ndarray, labels: np.ndarray, counts: np.ndarray
) -> list[Side]:
    """Images and labels of every task in a random order, so that a place in the list tells nothing."""
    words = random.words(seed, stream, numbers, int(counts.max()))
    ends = np.cumsum(counts)
    out = []
    for i, (end, n) in enumerate(zip(ends.tolist(), counts.tolist(), strict=True)):
        order = end - n + np.argsort(words[i, :n])
        out.append((images[order], labels[order]))
    return out
