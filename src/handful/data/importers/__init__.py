"""Importers: each reads one layout of raw images and says what is where. One file and one registry line each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, ClassVar

from handful.data.sources import Source, is_image_name, open_source
from handful.errors import BadInput
from handful.options import Checked

if TYPE_CHECKING:
    from handful.data.collection import Collection

SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "meta-train": "train",
    "valid": "valid",
    "val": "valid",
    "validation": "valid",
    "meta-valid": "valid",
    "meta-val": "valid",
    "dev": "valid",
    "test": "test",
    "testing": "test",
    "meta-test": "test",
    "test_seen": "test_seen",
}
_SPLIT = re.compile(rf"(?<![a-z])({'|'.join(sorted(map(re.escape, SPLIT_NAMES), key=len, reverse=True))})(?![a-z])")


@dataclass(frozen=True)
class Item:
    """One row of a collection to be: a file, its labels, its split under each scheme, and quarter turns
    (anticlockwise) to apply after decoding. Neighbouring items of one file are decoded once."""

    file: str
    columns: dict[str, str]
    splits: dict[str, str] = field(default_factory=dict)
    turn: int = 0


@dataclass(frozen=True)
class Listing:
    """All rows of a source, and what its card will say."""

    items: list[Item]
    labels: tuple[str, ...]
    schemes: tuple[str, ...] = ()
    context: str | None = None
    invert: bool = False
    licence: str = "unknown"
    citation: str = ""
    notes: tuple[str, ...] = ()


class Importer(metaclass=Checked):
    """A frozen dataclass whose fields are its options; ``size`` and ``grey`` are what it packs at unless told."""

    name: ClassVar[str]
    size: ClassVar[int]
    grey: ClassVar[bool]

    def open(self, source: Path) -> Source:
        """Where the rows are: a folder, an archive or a table."""
        return open_source(source)

    def read(self, source: Source) -> Listing:
        """List the rows; decode nothing."""
        raise NotImplementedError

    def pack(self, source: Path, target: Path, name: str | None) -> Collection | None:
        """The packed collection, by an importer of what needs no decoding; None for one that lists images."""
        return None


def split_name(text: str, where: str) -> str:
    """The library's name for a split, however a file spells it; empty stays empty."""
    key = text.strip().lower().replace(" ", "-")
    if not key:
        return ""
    if key not in SPLIT_NAMES:
        raise BadInput(f"{where}: {text!r} is not a split; use train, valid, test or test_seen")
    return SPLIT_NAMES[key]


def split_in(name: str) -> str:
    """The split that a table or shard is called after, else the folder nearest to it; empty if none."""
    for part in reversed(PurePosixPath(name.lower()).parts):
        if found := _SPLIT.findall(part):
            return SPLIT_NAMES[found[0]]
    return ""


def sample_key(name: str) -> tuple[str, str]:
    """A WebDataset member's sample and what it is of it: the name up to the first dot of its last part, and the rest."""
    folder, slash, last = name.rpartition("/")
    stem, _, ending = last.partition(".")
    return f"{folder}{slash}{stem}", ending.lower()


def images_or_refuse(source: Source) -> list[str]:
    """The names of the source's images; `BadInput` if there are none."""
    images = source.images
    if not images:
        raise BadInput(
            f"{source.path} holds no images; give a folder or zip with .jpg, .png or other image files in it"
        )
    return images


def common_root(names: Iterable[str]) -> str:
    """The folders that all ``names`` share, with a closing slash, or nothing."""
    parts: list[str] | None = None
    for name in names:
        folders = name.split("/")[:-1]
        if parts is None:
            parts = folders
        else:
            same = 0
            while same < min(len(parts), len(folders)) and parts[same] == folders[same]:
                same += 1
            parts = parts[:same]
        if not parts:
            return ""
    return "/".join(parts or []) + "/" if parts else ""


def guess(source: Source) -> str:
    """The importer whose layout a source has."""
    names = source.names
    if any(f"images_{half}/" in n for n in names for half in ("background", "evaluation")):
        return "omniglot"
    if source.named("labels.csv") and source.named("info.json"):
        return "meta-album"
    if source.named("croissant.json") and source.tables:
        return "croissant"
    if source.tables and not source.images:
        return "hf"
    if any(".tar/" in source.where(n).lower() for n in source.images[:1]) and _beside(names):
        return "webdataset"
    root = common_root(source.images)
    paths = [n.removeprefix(root).split("/") for n in source.images]
    if any(n.lower().endswith(".csv") and "/" not in n for n in names):
        return "csv"
    if paths and all(len(p) == 3 for p in paths) and not {p[0].lower() for p in paths} <= set(SPLIT_NAMES):
        concepts: dict[str, set[str]] = {}
        for concept, context, _ in paths:
            concepts.setdefault(context, set()).add(concept)
        if any(len(c) > 1 for c in concepts.values()):
            return "concept-context"
    return "folders"


def _beside(names: Iterable[str]) -> bool:
    """Whether images have classes or facts in files of their own names beside them."""
    kinds: dict[str, set[str]] = {}
    for name in names:
        key, ending = sample_key(name)
        kinds.setdefault(key, set()).add(ending)
    return any(k & {"cls", "txt", "json"} and any(is_image_name(f"x.{e}") for e in k) for k in kinds.values())
