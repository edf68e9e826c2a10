"""Episode (what the scorer knows), Support and Query (what the learner gets), Task (both, for training)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from handful.errors import BadInput
from handful.options import said

Descriptions = tuple[np.ndarray, ...]
Texts = tuple[tuple[str, ...], ...]
NONE = -1
"""The hidden answer of a query that is of none of its task's classes."""


@dataclass(frozen=True, eq=False)
class Episode:
    """One task as image numbers: the scorer's side.

    Parameters
    ----------
    support, query
        Image numbers; the labels beside them are flat in 0..C-1, row-major over ``shape``. A query that is of none of the
        classes has ``NONE``.
    shape
        ``(W,)`` classes, or ``(N1, N2)`` primitives of a pair task.
    names
        Class names, one tuple an axis.
    shows
        What of the support the learner may see.
    seen
        For pair tasks: which of the C pairs are in the support.
    side
        Facts for tables and diagnosis only: data set, contexts, ...
    seed
        The learner's own seed for this task.
    """

    number: int
    support: np.ndarray
    support_labels: np.ndarray
    query: np.ndarray
    query_labels: np.ndarray
    shape: tuple[int, ...]
    names: tuple[tuple[str, ...], ...]
    shows: frozenset[str] = frozenset({"images", "labels"})
    seen: np.ndarray | None = None
    descriptions: Descriptions | None = None
    side: dict[str, Any] = field(default_factory=dict)
    seed: int = 0

    @property
    def n_classes(self) -> int:
        return prod(self.shape)

    @cached_property
    def shots(self) -> int:
        """Support images of the smallest class that has any."""
        if not len(self.support_labels):
            return 0
        counts = np.bincount(self.support_labels)
        return int(counts[counts > 0].min())

    def sizes(self) -> np.ndarray:
        return np.bincount(self.support_labels, minlength=self.n_classes)

    def shown_texts(self) -> Texts | None:
        """The classes' names as a person says them, where the learner may read them."""
        return tuple(tuple(map(said, axis)) for axis in self.names) if "texts" in self.shows else None

    def as_dict(self) -> dict[str, Any]:
        """Plain lists, for JSON."""
        out: dict[str, Any] = {
            "number": self.number,
            "ways": list(self.shape) if len(self.shape) > 1 else self.shape[0],
            "shots": self.shots,
            "support": self.support.tolist(),
            "support_labels": self.support_labels.tolist(),
            "query": self.query.tolist(),
            "query_labels": self.query_labels.tolist(),
            "names": [list(axis) for axis in self.names],
            "shows": sorted(self.shows),
            "seed": self.seed,
            "side": {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in self.side.items()},
        }
        if self.seen is not None:
            out["seen"] = self.seen.tolist()
        return out

    @classmethod
    def from_dict(cls, facts: dict[str, Any]) -> Episode:
        """The episode that `as_dict` told of; a ValueError (or a TypeError) if it is none."""
        ways = facts["ways"]
        side = {k: np.asarray(v) if isinstance(v, list) else v for k, v in facts.get("side", {}).items()}
        made = cls(
            number=int(facts["number"]),
            support=np.asarray(facts["support"], dtype=np.int64),
            support_labels=np.asarray(facts["support_labels"], dtype=np.int64),
            query=np.asarray(facts["query"], dtype=np.int64),
            query_labels=np.asarray(facts["query_labels"], dtype=np.int64),
            shape=tuple(map(int, ways)) if isinstance(ways, list) else (int(ways),),
            names=tuple(tuple(axis) for axis in facts["names"]),
            shows=frozenset(facts["shows"]),
            seen=np.asarray(facts["seen"], dtype=bool) if "seen" in facts else None,
            side=side,
            seed=int(facts["seed"]),
        )
        for images, labels, least in ((made.support, made.support_labels, 0), (made.query, made.query_labels, NONE)):
            if images.ndim != 1 or labels.shape != images.shape:
                raise ValueError(f"{images.shape} images for {labels.shape} labels")
            if len(labels) and not (least <= labels.min() and labels.max() < made.n_classes):
                raise ValueError(f"labels from {labels.min()} to {labels.max()} for {made.n_classes} classes")
        if tuple(map(len, made.names)) != made.shape or not all(
            isinstance(n, str) for axis in made.names for n in axis
        ):
            raise ValueError("its classes have no names, or too many")
        if not all(isinstance(shown, str) for shown in made.shows):
            raise ValueError("what it shows is not said in words")
        return made

    def _repr_html_(self) -> str:
        names = ", ".join(" | ".join(axis) for axis in self.names)
        ways = " x ".join(map(str, self.shape))
        return (
            f"<b>Episode {self.number}</b>: {ways} way, {self.shots} shot, {len(self.query)} queries"
            f"<br><small>{names}</small>"
        )


@dataclass(frozen=True, eq=False)
class Support:
    """What the learner may learn one task from. Each part is None unless the rule shows it.

    ``images`` are uint8 ``(n, h, w, c)`` or float features ``(n, d)``; ``labels`` int64 flat over ``shape``;
    ``descriptions`` one matrix per axis, a row per class; ``texts`` one tuple per axis, the classes' names as a person says them.
    """

    shape: tuple[int, ...]
    images: np.ndarray | None = None
    labels: np.ndarray | None = None
    sizes: np.ndarray | None = None
    descriptions: Descriptions | None = None
    seed: int = 0
    texts: Texts | None = None

    @property
    def n_classes(self) -> int:
        return prod(self.shape)

    @classmethod
    def of(cls, images: np.ndarray, labels: np.ndarray, seed: int = 0) -> Support:
        """A support from any images and any integer labels; answers are columns in the labels' ascending order."""
        labels = np.asarray(labels)
        if len(labels) != len(images):
            raise BadInput(f"{len(images)} images with {len(labels)} labels; give one label an image")
        if not len(labels) or not np.issubdtype(labels.dtype, np.integer):
            raise BadInput("labels must be whole numbers, one per image, and at least one")
        values, codes = np.unique(labels, return_inverse=True)
        return cls((len(values),), np.asarray(images), codes.astype(np.int64), seed=seed)

    def __len__(self) -> int:
        return 0 if self.images is None else len(self.images)


@dataclass(frozen=True, eq=False)
class Query:
    """What the learner is asked about: images alone."""

    images: np.ndarray

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True, eq=False)
class Task:
    """A training task: its pixels read, its answers known."""

    support: Support
    query: Query
    labels: np.ndarray
    episode: Episode
