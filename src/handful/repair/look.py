"""What a repair is handed: the collection as the repairs before it leave it, the audit's views of its images, time and a seed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from handful.audits.context import Context
from handful.audits.duplicates import scan_of
from handful.audits.scan import Scan
from handful.data.collection import SPLITS, Collection
from handful.repair.kinds import Entry
from handful.repair.masking import masked

KEPT_FIRST = ("test", "test_seen", "valid", "train")
"""Of two copies in different splits the one in the earlier of these is kept."""


@dataclass
class Look:
    """Everything a repair may ask for.

    Parameters
    ----------
    context
        The audit's view of the whole collection: frozen features that are computed once.
    copy
        The split whose copy is kept where an image is in two: test or train.
    shots, queries, ways
        The protocol that classes must be large enough for.
    taxonomy
        A child,parent file; the collection's own hierarchy without.
    """

    context: Context
    copy: str = "test"
    ways: int = 5
    shots: int = 5
    queries: int = 15
    taxonomy: Path | None = None
    entries: list[Entry] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """What a reader has to know of how images were looked at."""

    @property
    def collection(self) -> Collection:
        return self.context.collection

    @property
    def seed(self) -> int:
        return self.context.seed

    @property
    def current(self) -> Collection:
        """The collection after what has been confirmed so far."""
        return masked(self.collection, self.entries)

    @property
    def rows(self) -> np.ndarray:
        """Row numbers, in the collection, of `current`."""
        mask = self.current.mask
        return np.arange(len(self.collection)) if mask is None else mask

    @cached_property
    def scan(self) -> Scan:
        """Digest, hash and thumbnail of every image."""
        return scan_of(self.context)

    @cached_property
    def classes(self) -> np.ndarray:
        """A number for the class of every image."""
        return self.collection.whole.classes

    @cached_property
    def splits(self) -> np.ndarray:
        """The split of every image; empty for none."""
        card = self.collection.card
        if not card.schemes:
            return np.full(len(self.collection), "", dtype="<U9")
        return self.collection.table[card.schemes[0]].cast(pl.String).fill_null("").to_numpy().astype(str)

    @cached_property
    def rank(self) -> np.ndarray:
        """The place of every image's split among those that are kept first."""
        order = KEPT_FIRST if self.copy == "test" else tuple(reversed(KEPT_FIRST))
        found = np.full(len(self.collection), len(order), dtype=np.int64)
        for i, split in enumerate(order):
            found[self.splits == split] = i
        return found

    def called(self, row: int) -> str:
        """An image as a person finds it: row, split and class."""
        split = f"{self.splits[row]}, " if self.splits[row] else ""
        return f"image {row} ({split}{self.collection.whole.class_names[self.classes[row]]})"

    def split_names(self) -> list[str]:
        """The splits that the collection has, of train, valid and test."""
        return [s for s in SPLITS[:3] if (self.splits == s).any()]
