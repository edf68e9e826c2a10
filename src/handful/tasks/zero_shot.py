"""Zero-shot tasks: the images of one class, candidates by description alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from handful.data.collection import Part
from handful.data.semantics import Semantics, open_semantics
from handful.errors import BadInput, Infeasible
from handful.tasks import random
from handful.tasks.episode import Episode
from handful.tasks.rule import Rule


@dataclass(frozen=True)
class ZeroShot(Rule):
    """Standard zero-shot recognition: candidates are the classes of the part (Eq. 3).

    Task number i asks for the images of class i, so a row of results is a class and intervals are over classes; numbers
    beyond the last class begin again. The learner gets descriptions of all candidates and no image. That the queries of
    a task share a class is the scorer's convenience and no learner's business: an answer may not depend on the other
    queries, which the contract suite checks.

    Parameters
    ----------
    semantics
        What describes the classes; a text is opened by :func:`handful.data.semantics.open_semantics`.
    queries
        At most so many images per class, drawn by the seed; all of them by default.
    """

    semantics: Semantics | str = "factors"
    queries: int | None = None

    name: ClassVar[str] = "zero-shot"
    shows: ClassVar[frozenset[str]] = frozenset({"descriptions"})
    metrics: ClassVar[tuple[str, ...]] = ("zero-shot",)

    @cached_property
    def described(self) -> Semantics:
        """The semantics, opened."""
        if isinstance(self.semantics, Semantics):
            return self.semantics
        return open_semantics(self.semantics, self.part.collection)

    @property
    def candidates(self) -> list[str]:
        """Classes a query may belong to, in the order of the answers' columns."""
        return self.part.class_names

    @cached_property
    def descriptions(self) -> tuple[np.ndarray, ...]:
        return self.described.shown(self.candidates)

    @property
    def asked(self) -> list[tuple[Part, int, bool]]:
        """What each task asks for: a part, a class of it, and whether training has seen the class."""
        return [(self.part, c, False) for c in range(self.part.n_classes)]

    @property
    def size(self) -> int:
        """Tasks until every class was asked once."""
        return len(self._asked)

    @cached_property
    def _asked(self) -> list[tuple[Part, int, bool]]:
        return self.asked

    @cached_property
    def _column(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.candidates)}

    def check(self) -> None:
        if len(self.candidates) < 2:
            raise Infeasible(
                f"{self.part.id} has {len(self.candidates)} class; zero-shot tasks choose among two or more"
            )
        if self.queries is not None:
            if self.queries < 1:
                raise BadInput(f"queries must be at least 1, not {self.queries}")
            short = [p.class_names[c] for p, c, _ in self._asked if p.members.sizes[c] < self.queries]
            if short:
                raise Infeasible(
                    f"{len(short)} classes of {self.part.id} have fewer than {self.queries} images "
                    f"({', '.join(short[:5])}); ask for fewer queries"
                )
        _ = self.descriptions

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        return [self._episode(seed, number) for number in range(start, stop)]

    def _episode(self, seed: int, number: int) -> Episode:
        part, place, seen = self._asked[number % self.size]
        images = part.members[place]
        order = np.argsort(random.words(seed, "query", np.asarray([number % self.size]), len(images))[0], kind="stable")
        query = images[order][: self.queries]
        name = part.class_names[place]
        return Episode(
            number=number,
            support=np.zeros(0, dtype=np.int64),
            support_labels=np.zeros(0, dtype=np.int64),
            query=query,
            query_labels=np.full(len(query), self._column[name]),
            shape=(len(self.candidates),),
            names=(self._names,),
            shows=self.shows,
            descriptions=self.descriptions,
            side={"class": name, "seen": int(seen)},
            seed=random.subseed(seed, "learner", 0),
        )

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(self.candidates)


@dataclass(frozen=True)
class GeneralisedZeroShot(ZeroShot):
    """Generalised zero-shot recognition: candidates are training and test classes together (Eq. 4).

    Asks for the images of the part (unseen classes) and for the held-out images of training classes, the split
    ``test_seen`` of the same scheme. Validation classes with images in ``test_seen`` count as training classes, as in the
    published protocols: methods learn from both once their options are chosen.
    """

    name: ClassVar[str] = "generalised-zero-shot"
    metrics: ClassVar[tuple[str, ...]] = ("generalised-zero-shot",)

    @cached_property
    def train(self) -> Part:
        return self.part.collection.part("train", self.part.scheme or None)

    @cached_property
    def held_out(self) -> Part:
        return self.part.collection.part("test_seen", self.part.scheme or None)

    @property
    def candidates(self) -> list[str]:
        return self._all

    @cached_property
    def seen(self) -> list[str]:
        """Classes that training sees."""
        column, collection = self.part.scheme, self.part.collection
        valid = []
        if column and bool((collection.table[column] == "valid").any()):
            held = set(self.held_out.class_names)
            valid = [name for name in collection.part("valid", column).class_names if name in held]
        return sorted({*self.train.class_names, *valid})

    @cached_property
    def _all(self) -> list[str]:
        both = sorted(set(self.seen) & set(self.part.class_names))
        if both:
            raise BadInput(
                f"{len(both)} classes are in train and in {self.part.split} ({', '.join(both[:5])}); zero-shot needs them apart"
            )
        return sorted([*self.seen, *self.part.class_names])

    @property
    def asked(self) -> list[tuple[Part, int, bool]]:
        strange = sorted(set(self.held_out.class_names) - set(self.seen))
        if strange:
            raise BadInput(
                f"test_seen holds {strange[0]}, which is no training class; hold out images of training classes"
            )
        seen = [(self.held_out, c, True) for c in range(self.held_out.n_classes)]
        return [*((self.part, c, False) for c in range(self.part.n_classes)), *seen]
