"""Reference-limited compositional tasks: a few samples of a few pairs, asked about pairs never seen together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from handful.data.words import WordVectors
from handful.errors import BadInput, Infeasible
from handful.tasks import random
from handful.tasks.episode import Episode
from handful.tasks.grid import Grid, matchings
from handful.tasks.rule import Rule

ATTEMPTS = 4
"""Redraws made for a task in one vectorised round."""
ROUNDS = 512
"""Rounds after which a part is said not to serve the rule."""


@dataclass(frozen=True)
class Pairs(Rule):
    """Algorithm 1 of "Reference-limited compositional learning" (RLCL, 2022): pairs of two primitives, seen and unseen.

    1. Compositions are drawn until N = ``primitives`` of them share no primitive; their primitives are the task's axes.
    2. The other existing pairs of these primitives are the candidates; with fewer than two, everything is drawn anew. Of
       the first two one becomes seen and one unseen, each further one either with probability 1/2, so that
       N_s = N + 1 + Binomial(candidates - 2, 1/2) (``division="coins"``).
    3. ``shots`` support images of each seen pair, ``queries`` others of each seen and each unseen pair.

    Answers are any of the N x N pairs (open world). Pairs with fewer than shots + queries images are never drawn. The
    order of the primitives on each axis is shuffled, so that a column number says nothing about being seen.

    Parameters
    ----------
    total, seen
        Fix the number of pairs of a task and how many of them are seen (Figure 3, right); 0 leaves both to step 2.
    division
        How the other pairs are divided. ``coins``: Algorithm 1, as in step 2. ``uniform``: the number of seen pairs is first
        drawn evenly from N + 1 to N + candidates - 1, then which ones, as section 2.2 says it and as the authors' sampler does
        it (FSCTaskSampler of bighuang624/RL-CZSL, d304554): few or many seen pairs are then as likely as half of them.
    words
        A file of word vectors (GloVe .txt, word2vec .bin, perhaps .gz); given, tasks show one description a primitive.
    unnamed
        What becomes of pairs with a primitive that has no vector: ``refuse`` the part, or ``drop`` them.
    """

    primitives: int = 5
    shots: int = 5
    queries: int = 5
    total: int = 0
    seen: int = 0
    division: Literal["coins", "uniform"] = "coins"
    words: str = ""
    unnamed: Literal["refuse", "drop"] = "refuse"

    name: ClassVar[str] = "pairs"
    axes: ClassVar[int] = 2
    metrics: ClassVar[tuple[str, ...]] = ("pairs",)

    def __post_init__(self) -> None:
        self.at_least(primitives=2, shots=1, queries=1, total=0, seen=0)
        if bool(self.total) != bool(self.seen):
            raise BadInput("total and seen go together: give both numbers of pairs, or neither")
        if self.total and not self.primitives <= self.seen < self.total <= self.primitives**2:
            raise BadInput(
                f"{self.seen} seen of {self.total} pairs cannot be: seen must be at least primitives ({self.primitives}) and "
                f"below total, total at most {self.primitives**2}"
            )

    @property
    def shows(self) -> frozenset[str]:
        return super().shows | ({"descriptions"} if self.words else set())

    @property
    def parameters(self) -> dict[str, Any]:
        """As for every rule, with the word vectors named by content: their path is not part of the drawing."""
        fields = super().parameters
        if self.words:
            fields["words"] = f"{Path(self.words).name}#{_vectors(self.words).id}"
        return fields

    @property
    def grid(self) -> Grid:
        return Grid.of(self.part)

    @property
    def n_classes(self) -> tuple[int, int]:  # type: ignore[override]
        """Primitives of each axis: `batches` labels an image by two numbers."""
        return self.grid.shape

    def batch_rows(self, seed: int, size: int, start: int = 0):
        """Image numbers and their two primitive numbers ``(size, 2)``."""
        grid = self.grid
        for rows, classes in super().batch_rows(seed, size, start):
            yield rows, grid.pairs[classes]

    def usable(self) -> np.ndarray:
        grid = self.grid
        enough = grid.members.sizes >= self.shots + self.queries
        if self.words and self.unnamed == "drop":
            for axis in range(2):
                vectors = _vectors(self.words)
                enough &= vectors.known(_spoken(vectors, grid.names[axis]))[grid.pairs[:, axis]]
        return np.flatnonzero(enough)

    def check(self) -> None:
        grid, usable, n = self.grid, self.usable(), self.primitives
        matched = grid.matching(usable)
        if matched < n:
            named = " and with word vectors of both primitives" if self.words and self.unnamed == "drop" else ""
            largest = np.sort(grid.members.sizes)[::-1][: min(n, 5)]
            fewer = f"lower primitives to {matched}, or shots + queries" if matched > 1 else "lower shots + queries"
            raise Infeasible(
                f"{self.part.id} has {len(usable)} pairs with the {self.shots} + {self.queries} images a task needs{named}, and "
                f"at most {matched} of them share no primitive; tasks of {n} primitives a side need {n}: {fewer} "
                f"(the largest pairs have {', '.join(map(str, largest))} images), or add pairs"
            )
        self._draw(0, np.arange(1), np.asarray(usable))
        if self.words and self.unnamed == "refuse":
            _descriptions(self)

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        usable = self.usable()
        if not len(usable):
            self.check()
        if start >= stop:
            return []
        numbers = np.arange(start, stop)
        first, second, status = self._draw(seed, numbers, usable)
        return self._episodes(seed, numbers, first, second, status)

    def _draw(self, seed: int, numbers: np.ndarray, usable: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Primitives of both axes ``(T, N)`` and the state of each cell ``(T, N, N)``: 0 absent, 1 seen, 2 unseen."""
        n, grid = self.primitives, self.grid
        pairs = grid.pairs[usable]
        exists = np.zeros(grid.shape, dtype=bool)
        exists[pairs[:, 0], pairs[:, 1]] = True
        first, second = (np.zeros((len(numbers), n), dtype=np.int64) for _ in range(2))
        status = np.zeros((len(numbers), n, n), dtype=np.int8)
        waiting = np.arange(len(numbers))
        needed = self.total - n if self.total else 2
        best = -1
        for turn in range(ROUNDS):
            keys = np.repeat(numbers[waiting], ATTEMPTS) * ATTEMPTS + np.tile(np.arange(ATTEMPTS), len(waiting))
            chosen, whole = matchings(random.words(seed, f"pairs/{turn}", keys, len(pairs)), pairs, grid.shape, n)
            a, b = pairs[chosen, 0], pairs[chosen, 1]
            shuffle = np.argsort(random.words(seed, f"axes/{turn}", keys, 2 * n).reshape(-1, 2, n), axis=-1)
            diagonal = np.zeros((len(keys), n, n), dtype=bool)
            diagonal[np.arange(len(keys))[:, None], np.argsort(shuffle[:, 0]), np.argsort(shuffle[:, 1])] = True
            a, b = np.take_along_axis(a, shuffle[:, 0], 1), np.take_along_axis(b, shuffle[:, 1], 1)
            candidate = exists[a[:, :, None], b[:, None, :]] & ~diagonal
            count = candidate.sum((1, 2))
            best = max(best, int(np.where(whole, count, -1).max()))
            good = (whole & (count >= needed)).reshape(-1, ATTEMPTS)
            done = good.any(1)
            if not done.any():
                continue
            at = (np.arange(len(waiting)) * ATTEMPTS + good.argmax(1))[done]
            to = waiting[done]
            first[to], second[to] = a[at], b[at]
            coins = random.words(seed, "cells", numbers[to], n * n + 1)
            status[to] = np.where(diagonal[at], 1, self._assign(candidate[at], coins).reshape(-1, n, n))
            waiting = waiting[~done]
            if not len(waiting):
                return first, second, status
        found = f"at most {best} others" if best >= 0 else "no such set of primitives"
        raise Infeasible(
            f"{self.part.id} cannot serve pair tasks of {n} primitives a side: {ROUNDS * ATTEMPTS} draws of {n} pairs without a "
            f"shared primitive found {found} among the same primitives, {needed} are needed; the part has {len(pairs)} "
            f"usable pairs of {grid.shape[0]} x {grid.shape[1]} primitives: take fewer primitives or add pairs"
        )

    def _assign(self, candidate: np.ndarray, coins: np.ndarray) -> np.ndarray:
        """Seen (1) or unseen (2) for every candidate cell, 0 elsewhere."""
        cells = candidate.reshape(len(candidate), self.primitives**2)
        heads = (coins[:, :-1] >> np.uint64(63)).astype(bool)
        if self.total or self.division == "uniform":
            order = np.argsort(np.where(cells, coins[:, :-1] >> np.uint64(1), np.uint64(2**63)), axis=1)
            rank, count = np.argsort(order, axis=1), cells.sum(1, keepdims=True)
            if self.total:
                more, used = np.full_like(count, self.seen - self.primitives), self.total - self.primitives
            else:
                more, used = 1 + random.below(coins[:, -1:], count - 1), count
            return np.where(cells, np.where(rank < more, 1, np.where(rank < used, 2, 0)), 0)
        place = np.cumsum(cells, axis=1)
        swap = (coins[:, -1:] >> np.uint64(63)).astype(bool)
        heads = np.where(place == 1, swap, np.where(place == 2, ~swap, heads))
        return np.where(cells, np.where(heads, 1, 2), 0)

    def _episodes(
        self, seed: int, numbers: np.ndarray, first: np.ndarray, second: np.ndarray, status: np.ndarray
    ) -> list[Episode]:
        n, shots, grid = self.primitives, self.shots, self.grid
        each = shots + self.queries
        owner, cell = np.nonzero(status.reshape(len(numbers), -1))
        state = status.reshape(len(numbers), -1)[owner, cell]
        pair = grid.number[first[owner, cell // n], second[owner, cell % n]]
        lots = random.words(seed, "images", numbers[owner] * (n * n) + cell, each)
        sizes, starts = grid.members.sizes[pair], grid.members.starts[pair]
        images = grid.members.values[starts[:, None] + random.choose(lots, sizes)]
        bounds = np.searchsorted(owner, np.arange(len(numbers) + 1))
        seeds = (random.words(seed, "learner", numbers, 1)[:, 0] >> np.uint64(1)).tolist()
        order = random.words(seed, "order", numbers, 2 * n * n * each)
        vectors = _descriptions(self) if self.words else None
        labels = np.repeat(cell[:, None], each, 1)
        out = []
        for i, number in enumerate(numbers.tolist()):
            mine = slice(bounds[i], bounds[i + 1])
            seen = state[mine] == 1
            own, flat = images[mine], labels[mine]
            support, support_labels = own[seen][:, :shots].ravel(), flat[seen][:, :shots].ravel()
            # A seen pair's queries follow its support images in the draw; an unseen pair's are its first ones.
            query = np.where(seen[:, None], own[:, shots:], own[:, : self.queries]).ravel()
            query_labels = flat[:, shots:].ravel()
            a, b = np.argsort(order[i, : len(support)]), np.argsort(order[i, -len(query) :])
            mask = np.zeros(n * n, dtype=bool)
            mask[cell[mine][seen]] = True
            side = {"seen_pairs": int(seen.sum()), "unseen_pairs": int((~seen).sum())}
            out.append(
                Episode(
                    number=number,
                    support=support[a],
                    support_labels=support_labels[a],
                    query=query[b],
                    query_labels=query_labels[b],
                    shape=(n, n),
                    names=(grid.pick(0, first[i]), grid.pick(1, second[i])),
                    shows=self.shows,
                    seen=mask,
                    descriptions=None if vectors is None else (vectors[0][first[i]], vectors[1][second[i]]),
                    side=side,
                    seed=seeds[i],
                )
            )
        return out


def references(rule: Pairs, n: int = 1000, seed: int = 0) -> dict[str, float]:
    """Section 2.4's statistics over n tasks: seen pairs and support images a primitive, pairs a task."""
    episodes = rule.draw_block(seed, 0, n)
    seen = np.asarray([e.side["seen_pairs"] for e in episodes])
    unseen = np.asarray([e.side["unseen_pairs"] for e in episodes])
    return {
        "seen_pairs_a_primitive": float(seen.mean() / rule.primitives),
        "samples_a_primitive": float(seen.mean() * rule.shots / rule.primitives),
        "seen_pairs": float(seen.mean()),
        "unseen_pairs": float(unseen.mean()),
    }


@lru_cache(maxsize=4)
def _read_vectors(path: str, stamp: tuple[int, int]) -> WordVectors:
    return WordVectors.open(path)


def _vectors(path: str) -> WordVectors:
    """The word vectors of a file, read again only when the file has changed."""
    file = Path(path)
    stamp = (file.stat().st_mtime_ns, file.stat().st_size) if file.is_file() else (0, 0)
    return _read_vectors(str(path), stamp)


def _spoken(vectors: WordVectors, names: list[str]) -> list[str]:
    """Names as word vectors may know them: UT-Zappos writes "Faux.Leather"."""
    return [n if vectors.vector(n) is not None else n.replace(".", " ") for n in names]


def _descriptions(rule: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of all primitives of a rule's part, one matrix per axis; zeros for dropped ones, which are never drawn."""
    vectors, kept = _vectors(rule.words), rule.part.__dict__.setdefault("_words", {})
    key = (vectors.id, rule.unnamed)
    if key not in kept:
        out = []
        for names in (_spoken(vectors, axis) for axis in rule.grid.names):
            known = vectors.known(names) if rule.unnamed == "drop" else np.ones(len(names), dtype=bool)
            matrix = np.zeros((len(names), vectors.dim), dtype=np.float32)
            matrix[known] = vectors.of([n for n, k in zip(names, known, strict=True) if k])
            out.append(matrix)
        kept[key] = (out[0], out[1])
    return kept[key]
