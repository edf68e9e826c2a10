"""RLCL-ATTR and RLCL-ACT: three published data sets each, filtered so that splits share no primitive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

from handful.data.importers import Importer, Item, Listing
from handful.data.importers.pairs.czsl import CGqa, MitStates, UtZappos
from handful.data.importers.pairs.hico import Hico
from handful.data.importers.pairs.imsitu import ImSitu
from handful.data.importers.pairs.spelling import joined, lemma, plain
from handful.data.importers.pairs.visual_genome import VisualGenome
from handful.data.pair_splits import PARTS
from handful.data.sources import Source
from handful.errors import BadInput
from handful.files import WRONG, read_json

SIZES = "big,giant,huge,large,little,long,low,medium,mid-size,short,small,tall,thick,thin,tiny,wide"
"""Attributes of size, which an image without a scale cannot show. Narrow and high stay: the published lists have both."""


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
class Rlcl(Importer):
    """Common part of the two builders: read three sources, filter, split by source.

    The filters, in this order (section 2.3; the paper does not say which split keeps a shared primitive):

    1. pairs with fewer than ``least`` images go;
    2. attributes of size (``sizes``) go;
    3. a primitive that several splits have stays in one, by ``keep``: ``most`` is the split with most images of it,
       a tie or a split's name goes to that split first (``test``, ``valid``, ``train``). The sources spell in their own
       ways: case, spaces, underscores and hyphens make no difference ("baseball_bat", "Baseball bat").

    Filtering by primitive removes whole pairs, so that all that stay still have ``least`` images.

    ``lists`` is a folder of published pair lists instead, ``train*.json``, ``val*.json`` and ``test*.json``, each a list of
    "attribute_object": exactly these pairs are taken, under the lists' own names, and none of the filters is used. The
    authors' lists (bighuang624/RL-CZSL, d304554, api/datasets/assets) have the pairs and primitives of Table 3.

    ``several`` is what becomes of images with several labels in any of the sources; by default each does its own.
    """

    least: int = 10
    sizes: str = SIZES
    keep: str = "most"
    lists: str = ""
    several: Literal["", "skip", "first"] = ""

    name: ClassVar[str] = ""
    size: ClassVar[int] = 84
    grey: ClassVar[bool] = False
    labels: ClassVar[tuple[str, str]] = ("", "object")
    sources: ClassVar[dict[str, tuple[Any, tuple[str, ...]]]] = {}

    def read(self, source: Source) -> Listing:
        if self.keep not in ("most", *PARTS):
            raise BadInput(f"{self.name}: keep is most, {', '.join(PARTS)}, not {self.keep!r}")
        if self.least < 1:
            raise BadInput(f"{self.name}: least must be at least 1, not {self.least}")
        items: list[Item] = []
        notes: list[str] = []
        for part in PARTS:
            importer, folders = self.sources[part]
            importer = self.configured(replace(importer, several=self.several) if self.several else importer)
            listing = importer.read(SubSource(source, folder := self._folder(source, folders)))
            for item in listing.items:
                items.append(Item(f"{folder}/{item.file}", dict(item.columns), {"rlcl": part}))
            notes.append(f"{part}: {len(listing.items)} images of {importer.name}")
            notes += [f"{importer.name}: {note}" for note in listing.notes]
        items, said = self.listed(items) if self.lists else self.filter(self.united(items))
        if not items:
            raise BadInput(f"{source.path}: the filters left nothing ({'; '.join(said)}); lower least or keep sizes")
        return Listing(
            items, self.labels, ("rlcl",), licence="research use, see the sources' terms", notes=(*notes, *said)
        )

    def configured(self, importer: Any) -> Any:
        """The importer of one source with this builder's options."""
        return importer

    def _folder(self, source: Source, folders: tuple[str, ...]) -> str:
        there = {PurePosixPath(n).parts[0] for n in source.names if "/" in n}
        for folder in sorted(there):
            if folder.lower().replace("_", "-") in folders:
                return folder
        raise BadInput(
            f"{source.path} has no folder {folders[0]}; {self.name} is built from "
            f"{', '.join(f[1][0] for f in self.sources.values())}"
        )

    def key(self, column: str, name: str) -> str:
        """What names of one primitive have in common, however the sources spell it."""
        return plain(name)

    def united(self, items: list[Item]) -> list[Item]:
        """Items as they are; a builder whose sources inflect gives each primitive one name in each split."""
        return items

    def listed(self, items: list[Item]) -> tuple[list[Item], list[str]]:
        """The pairs of the published lists, and how many of them the sources do not have."""
        wanted = {part: self._list(part) for part in PARTS}
        kept, found = [], Counter[str]()
        for item in items:
            part = item.splits["rlcl"]
            pair = wanted[part].get(tuple(joined(self.key(c, item.columns[c])) for c in self.labels))
            if pair is not None:
                kept.append(Item(item.file, dict(zip(self.labels, pair, strict=True)), item.splits))
        for part, *_ in {_pair(i, self.labels) for i in kept}:
            found[part] += 1
        counts = ", ".join(f"{found[p]} of {len(wanted[p])} {p}" for p in PARTS)
        return kept, [
            f"published lists: {counts} pairs have images; {len(items) - len(kept)} other images were left out"
        ]

    def _list(self, part: str) -> dict[tuple[str, ...], tuple[str, str]]:
        """The published pairs of a split by the key that items have too."""
        files = sorted(Path(self.lists).glob(f"{part.removesuffix('id')}*.json"))
        if len(files) != 1:
            raise BadInput(
                f"{self.lists} has {len(files)} files {part.removesuffix('id')}*.json; give the folder of published pair lists"
            )
        try:
            names = read_json(files[0])
            pairs = [(name.split("_")[0], name.split("_")[1]) for name in names]
        except (OSError, *WRONG) as error:
            raise BadInput(f"{files[0]} is not a list of first_second pairs ({error}); fetch it again") from error
        return {tuple(joined(self.key(c, n)) for c, n in zip(self.labels, pair, strict=True)): pair for pair in pairs}

    def filter(self, items: list[Item]) -> tuple[list[Item], list[str]]:
        """What stays, and what each filter removed."""
        notes = []
        first, second = self.labels
        sizes = {plain(s) for s in self.sizes.split(",") if s.strip()}
        counts = Counter(_pair(i, self.labels) for i in items)
        items, note = _keep(items, [counts[_pair(i, self.labels)] >= self.least for i in items], self.labels)
        notes.append(f"fewer than {self.least} samples: {note}")
        items, note = _keep(items, [plain(i.columns[first]) not in sizes for i in items], self.labels)
        notes.append(f"size attributes: {note}")
        homes = [self._homes(items, column) for column in (first, second)]
        shared = [sum(len(parts) > 1 for parts in self._parts_of(items, c).values()) for c in (first, second)]
        stays = [
            all(
                home[self.key(c, i.columns[c])] == i.splits["rlcl"]
                for home, c in zip(homes, (first, second), strict=True)
            )
            for i in items
        ]
        items, note = _keep(items, stays, self.labels)
        notes.append(f"primitives in several splits ({shared[0]} {first}s, {shared[1]} objects): {note}")
        return items, notes

    def _homes(self, items: list[Item], column: str) -> dict[str, str]:
        """The one split that keeps each primitive."""
        order = [self.keep] * (self.keep != "most") + ["test", "valid", "train"]
        homes = {}
        for name, parts in self._parts_of(items, column).items():
            if self.keep == "most":
                homes[name] = max(parts, key=lambda p: (parts[p], -order.index(p)))
            else:
                homes[name] = min(parts, key=order.index)
        return homes

    def _parts_of(self, items: list[Item], column: str) -> dict[str, Counter[str]]:
        """Images of each primitive in each split."""
        out: dict[str, Counter[str]] = {}
        for item in items:
            out.setdefault(self.key(column, item.columns[column]), Counter())[item.splits["rlcl"]] += 1
        return out


def _pair(item: Item, labels: tuple[str, str]) -> tuple[str, str, str]:
    return item.splits["rlcl"], item.columns[labels[0]], item.columns[labels[1]]


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
    ``split`` names one of their compositional splits, where a folder holds several.
    """

    split: str = ""

    name: ClassVar[str] = "rlcl-attr"
    labels: ClassVar[tuple[str, str]] = ("attribute", "object")
    sources: ClassVar[dict[str, tuple[Any, tuple[str, ...]]]] = {
        "train": (CGqa(), ("cgqa", "c-gqa")),
        "valid": (UtZappos(), ("ut-zap50k", "ut-zappos", "ut-zappos50k")),
        "test": (MitStates(), ("mit-states",)),
    }

    def configured(self, importer: Any) -> Any:
        # The published lists have materials of UT-Zappos50K that its compositional split leaves out.
        return replace(importer, split=self.split, beyond=bool(self.lists))


@dataclass(frozen=True)
class RlclAct(Rlcl):
    """RLCL-ACT, action-object pairs: HICO to train, Visual Genome (relationships) to validate, imSitu to test.

    The source holds the folders ``hico``, ``visual-genome`` and ``imsitu``. HICO's actions go by their -ing forms, as
    imSitu's do, and forms of one verb are one action, whichever source has them ("rides", "riding", "riding a"), under the
    form that most images of the split have: none is in two splits. With ``lists`` HICO's "no interaction" pairs are read too,
    as the authors' list has them.
    """

    name: ClassVar[str] = "rlcl-act"
    labels: ClassVar[tuple[str, str]] = ("action", "object")
    sources: ClassVar[dict[str, tuple[Any, tuple[str, ...]]]] = {
        "train": (Hico(ing=True), ("hico",)),
        "valid": (VisualGenome(), ("visual-genome", "vg")),
        "test": (ImSitu(), ("imsitu",)),
    }

    def configured(self, importer: Any) -> Any:
        return replace(importer, ing=False, none=True) if self.lists and isinstance(importer, Hico) else importer

    def key(self, column: str, name: str) -> str:
        return lemma(name) if column == self.labels[0] else super().key(column, name)

    def united(self, items: list[Item]) -> list[Item]:
        column = self.labels[0]
        forms: dict[tuple[str, str], Counter[str]] = {}
        for item in items:
            place = (item.splits["rlcl"], self.key(column, item.columns[column]))
            forms.setdefault(place, Counter())[item.columns[column]] += 1
        name = {place: max(sorted(found), key=found.__getitem__) for place, found in forms.items()}
        return [
            Item(i.file, {**i.columns, column: name[i.splits["rlcl"], self.key(column, i.columns[column])]}, i.splits)
            for i in items
        ]


BUILDERS: dict[str, type[Rlcl]] = {"attr": RlclAttr, "act": RlclAct}
