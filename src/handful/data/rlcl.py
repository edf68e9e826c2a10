"""RLCL-ATTR and RLCL-ACT: three published data sets each, filtered so that splits share no primitive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar

import numpy as np
import polars as pl

from handful.data.collection import Collection
from handful.data.importers import Item, Listing
from handful.data.importers.pairs.czsl import CGqa, MitStates, UtZappos
from handful.data.importers.pairs.hico import Hico
from handful.data.importers.pairs.imsitu import ImSitu
from handful.data.importers.pairs.visual_genome import VisualGenome
from handful.data.sources import Source
from handful.errors import BadInput

SIZES = "big,giant,high,huge,large,little,long,low,medium,mid-size,narrow,short,small,tall,thick,thin,tiny,wide"
"""Attributes of size, which an image without a scale cannot show."""

TABLE3 = {
    "attr": {
        "pairs": (1076, 136, 556),
        "first": (105, 33, 52),
        "second": (281, 12, 195),
        "samples": (51928, 29922, 17921),
    },
    "act": {"pairs": (214, 22, 338), "first": (52, 10, 123), "second": (59, 11, 84), "samples": (20604, 1207, 8609)},
}
"""Table 3 of the paper: train, valid, test."""

PARTS = ("train", "valid", "test")


class SubSource(Source):
    """One folder of a source as a source of its own."""

    def __init__(self, whole: Source, folder: str):
        self.whole, self.prefix = whole, f"{folder}/"
        self.path = whole.path / folder
        self.names = tuple(n.removeprefix(self.prefix) for n in whole.names if n.startswith(self.prefix))

    def read(self, name: str) -> bytes:
        return self.whole.read(self.prefix + name)

    def stamps(self) -> Iterator[tuple[str, int, int]]:
        return self.whole.stamps()


@dataclass(frozen=True)
class Rlcl:
    """Common part of the two builders: read three sources, filter, split by source.

    The filters, in this order (section 2.3; the paper does not say which split keeps a shared primitive):

    1. pairs with fewer than ``least`` images go;
    2. attributes of size (``sizes``) go;
    3. a primitive that several splits have stays in one, by ``keep``: ``most`` is the split with most images of it,
       a tie or a split's name goes to that split first (``test``, ``valid``, ``train``).

    Filtering by primitive removes whole pairs, so that all that stay still have ``least`` images.
    """

    least: int = 10
    sizes: str = SIZES
    keep: str = "most"

    name: ClassVar[str] = ""
    size: ClassVar[int] = 84
    grey: ClassVar[bool] = False
    labels: ClassVar[tuple[str, str]] = ("", "object")
    sources: ClassVar[dict[str, tuple[Any, tuple[str, ...]]]] = {}

    def read(self, source: Source) -> Listing:
        if self.keep not in ("most", *PARTS):
            raise BadInput(f"{self.name}: keep is most, {', '.join(PARTS)}, not {self.keep!r}")
        items: list[Item] = []
        notes: list[str] = []
        for part in PARTS:
            importer, folders = self.sources[part]
            listing = importer.read(SubSource(source, folder := self._folder(source, folders)))
            for item in listing.items:
                items.append(Item(f"{folder}/{item.file}", dict(item.columns), {"rlcl": part}))
            notes.append(f"{part}: {len(listing.items)} images of {importer.name}")
            notes += [f"{importer.name}: {note}" for note in listing.notes]
        items, said = self.filter(items)
        if not items:
            raise BadInput(f"{source.path}: the filters left nothing ({'; '.join(said)}); lower least or keep sizes")
        return Listing(
            items, self.labels, ("rlcl",), licence="research use, see the sources' terms", notes=(*notes, *said)
        )

    def _folder(self, source: Source, folders: tuple[str, ...]) -> str:
        there = {PurePosixPath(n).parts[0] for n in source.names if "/" in n}
        for folder in there:
            if folder.lower().replace("_", "-") in folders:
                return folder
        raise BadInput(
            f"{source.path} has no folder {folders[0]}; {self.name} is built from "
            f"{', '.join(f[1][0] for f in self.sources.values())}"
        )

    def filter(self, items: list[Item]) -> tuple[list[Item], list[str]]:
        """What stays, and what each filter removed."""
        notes = []
        first, second = self.labels
        sizes = {s.strip().lower() for s in self.sizes.split(",") if s.strip()}
        counts = Counter(_pair(i, self.labels) for i in items)
        items, note = _keep(items, [counts[_pair(i, self.labels)] >= self.least for i in items], self.labels)
        notes.append(f"fewer than {self.least} samples: {note}")
        items, note = _keep(items, [i.columns[first].lower() not in sizes for i in items], self.labels)
        notes.append(f"size attributes: {note}")
        homes = [self._homes(items, column) for column in (first, second)]
        shared = [sum(len(parts) > 1 for parts in _parts_of(items, column).values()) for column in (first, second)]
        stays = [
            all(home[i.columns[c].lower()] == i.splits["rlcl"] for home, c in zip(homes, (first, second), strict=True))
            for i in items
        ]
        items, note = _keep(items, stays, self.labels)
        notes.append(f"primitives in several splits ({shared[0]} {first}s, {shared[1]} objects): {note}")
        return items, notes

    def _homes(self, items: list[Item], column: str) -> dict[str, str]:
        """The one split that keeps each primitive."""
        order = [self.keep] * (self.keep != "most") + ["test", "valid", "train"]
        homes = {}
        for name, parts in _parts_of(items, column).items():
            if self.keep == "most":
                homes[name] = max(parts, key=lambda p: (parts[p], -order.index(p)))
            else:
                homes[name] = min(parts, key=order.index)
        return homes


def _pair(item: Item, labels: tuple[str, str]) -> tuple[str, str, str]:
    return item.splits["rlcl"], item.columns[labels[0]], item.columns[labels[1]]


def _parts_of(items: list[Item], column: str) -> dict[str, Counter[str]]:
    """Images of each primitive in each split; names are compared without case."""
    out: dict[str, Counter[str]] = {}
    for item in items:
        out.setdefault(item.columns[column].lower(), Counter())[item.splits["rlcl"]] += 1
    return out


def _keep(items: list[Item], stays: list[bool], labels: tuple[str, str]) -> tuple[list[Item], str]:
    kept = [item for item, stay in zip(items, stays, strict=True) if stay]
    before = Counter(part for part, *_ in {_pair(i, labels) for i in items})
    after = Counter(part for part, *_ in {_pair(i, labels) for i in kept})
    gone = ", ".join(f"{before[p] - after[p]} {p}" for p in PARTS)
    return kept, f"{len(items) - len(kept)} images and {before.total() - after.total()} pairs removed ({gone})"


@dataclass(frozen=True)
class RlclAttr(Rlcl):
    """RLCL-ATTR, attribute-object pairs: C-GQA to train, UT-Zappos50K to validate, MIT-States to test.

    The source holds the folders ``cgqa``, ``ut-zap50k`` and ``mit-states`` as distributed for compositional zero-shot work.
    """

    name: ClassVar[str] = "rlcl-attr"
    labels: ClassVar[tuple[str, str]] = ("attribute", "object")
    sources: ClassVar[dict[str, tuple[Any, tuple[str, ...]]]] = {
        "train": (CGqa(), ("cgqa", "c-gqa")),
        "valid": (UtZappos(), ("ut-zap50k", "ut-zappos", "ut-zappos50k")),
        "test": (MitStates(), ("mit-states",)),
    }


@dataclass(frozen=True)
class RlclAct(Rlcl):
    """RLCL-ACT, action-object pairs: HICO to train, Visual Genome (relationships) to validate, imSitu to test.

    The source holds the folders ``hico``, ``visual-genome`` and ``imsitu``.
    """

    name: ClassVar[str] = "rlcl-act"
    labels: ClassVar[tuple[str, str]] = ("action", "object")
    sources: ClassVar[dict[str, tuple[Any, tuple[str, ...]]]] = {
        "train": (Hico(), ("hico",)),
        "valid": (VisualGenome(), ("visual-genome", "vg")),
        "test": (ImSitu(), ("imsitu",)),
    }


BUILDERS: dict[str, type[Rlcl]] = {"attr": RlclAttr, "act": RlclAct}


def statistics(collection: Collection, reported: str | None = None) -> pl.DataFrame:
    """Table 3 for a pair collection: pairs, primitives and samples of each split, the paper's numbers beside."""
    labels = collection.card.labels
    if len(labels) != 2:
        raise BadInput(f"{collection.card.name} is labelled by {', '.join(labels)}; pair statistics need two columns")
    scheme = collection.card.schemes[0] if collection.card.schemes else None
    rows: list[dict[str, Any]] = []
    table = collection.table
    for i, part in enumerate(PARTS):
        own = table.filter(pl.col(scheme) == part) if scheme else table.head(0)
        pairs = own.group_by(list(labels)).len()
        measured = {
            "pairs": len(pairs),
            "first": own[labels[0]].n_unique(),
            "second": own[labels[1]].n_unique(),
            "samples": len(own),
        }
        row: dict[str, Any] = {"split": part, **measured}
        grid = measured["first"] * measured["second"]
        row["grid"] = measured["pairs"] / grid if grid else float("nan")
        row["samples_a_pair"] = float(np.mean(pairs["len"].to_numpy())) if len(pairs) else float("nan")
        if reported:
            row |= {f"reported_{k}": v[i] for k, v in TABLE3[reported].items()}
        rows.append(row)
    return pl.DataFrame(rows)
