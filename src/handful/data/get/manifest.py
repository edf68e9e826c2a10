"""The manifest: data sets by name, the archives each is made of, their mirrors and checksums."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

from handful.errors import BadInput, nearest
from handful.files import WRONG, parse_toml, read_text

SIZES = ("micro", "mini", "extended")
SCHEMES = ("http", "https", "file")
LENGTHS = {"sha256": 64, "md5": 32}


@dataclass(frozen=True)
class Archive:
    """One file to fetch.

    Parameters
    ----------
    file
        Its name below the archives' folder, perhaps with a folder of its own.
    urls
        Mirrors, tried in order.
    listings
        Addresses of S3-like bucket listings; the zip whose name starts with the file's stem is taken.
    size, sha256, md5
        What is published of its bytes; None where nothing is.
    optional
        The data set is usable without it.
    """

    file: str
    urls: tuple[str, ...] = ()
    listings: tuple[str, ...] = ()
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None
    optional: bool = False

    @property
    def checksum(self) -> tuple[str, str] | None:
        """The strongest published checksum, as (algorithm, hexadecimal digits)."""
        for kind in ("sha256", "md5"):
            if value := getattr(self, kind):
                return kind, value
        return None

    def __post_init__(self) -> None:
        parts = PurePosixPath(self.file).parts
        if not parts or self.file.startswith("/") or ".." in parts or "\\" in self.file:
            raise BadInput(f"the manifest names the file {self.file!r}; use a relative path without ..")
        for url in (*self.urls, *self.listings):
            if url.partition("://")[0].lower() not in SCHEMES:
                raise BadInput(f"the manifest's address {url!r} of {self.file} is not http, https or file")
        for kind, digits in LENGTHS.items():
            value = getattr(self, kind)
            if value is not None and not re.fullmatch(rf"[0-9a-f]{{{digits}}}", value):
                raise BadInput(f"the manifest's {kind} of {self.file} is not {digits} lower-case hexadecimal digits")


@dataclass(frozen=True)
class DataSet:
    """One data set. ``any`` says that one of its archives is enough."""

    name: str
    title: str
    layout: str
    archives: tuple[Archive, ...]
    paper: str = ""
    licence: str = "unknown"
    page: str = ""
    pixels: int | None = None
    any: bool = False
    size: str | None = None

    @property
    def checked(self) -> str:
        """How far the bytes can be verified before they are trusted."""
        kinds = {a.checksum[0] if a.checksum else "none published" for a in self.archives if not a.optional}
        return " or ".join(sorted(kinds))

    @property
    def bytes(self) -> int | None:
        sizes = [a.size for a in self.archives if not a.optional]
        if self.any:
            return sizes[0]
        return None if None in sizes else sum(s for s in sizes if s is not None)


@dataclass(frozen=True)
class Manifest:
    """Entries by name; those that come in sizes are made when their size is known."""

    entries: dict[str, DataSet]
    sized: dict[str, dict[str, DataSet]]

    @property
    def names(self) -> list[str]:
        return [*self.entries, *self.sized]

    def find(self, name: str, size: str | None = None) -> DataSet:
        """The entry (``name`` or ``name:size``), or a sentence that names the nearest."""
        base, _, tail = name.rpartition(":")
        if size is None and base and tail.strip().lower() in SIZES:
            name, size = base, tail.strip().lower()
        key = name.strip().lower().replace("_", "-").replace("/", "-").replace(":", "-")
        if key in self.entries:
            if size is not None:
                raise BadInput(f"{key} comes in one size; leave --size {size} out")
            return self.entries[key]
        if key in self.sized:
            choices = self.sized[key]
            wanted = size or "mini"
            if wanted not in choices:
                raise BadInput(f"{key} has no size {wanted!r}; it comes in {', '.join(choices)}")
            return choices[wanted]
        raise BadInput(f"there is no data set named {name!r} to get; {nearest(key, self.names)}")


def read_manifest(path: str | Path | None = None) -> Manifest:
    """The library's manifest, or one of the same form from a file, whose entries come beside and before it."""
    own = _parse((resources.files("handful.data.get") / "manifest.toml").read_text(encoding="utf-8"), "the manifest")
    if path is None:
        return own
    try:
        text = read_text(Path(path))
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read as a manifest ({error}); give a TOML file") from error
    more = _parse(text, str(path))
    return Manifest({**own.entries, **more.entries}, {**own.sized, **more.sized})


def _parse(text: str, where: str) -> Manifest:
    try:
        tables = parse_toml(text)
    except ValueError as error:
        raise BadInput(f"{where} is not valid TOML: {error}") from error
    entries: dict[str, DataSet] = {}
    sized: dict[str, dict[str, DataSet]] = {}
    for name, table in tables.items():
        try:
            if "buckets" in table:
                sized |= _album(name, dict(table))
            else:
                entries[name] = _entry(name, dict(table))
        except WRONG as error:
            raise BadInput(f"{where}: the entry {name!r} is not complete or has an unknown key ({error})") from error
    return Manifest(entries, sized)


def _entry(name: str, table: dict[str, Any]) -> DataSet:
    made: list[Archive] = []
    for facts in table.pop("archive"):
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()}
        made.append(Archive(**values))
    return DataSet(name=name, archives=tuple(made), **table)


def _album(name: str, table: dict[str, Any]) -> dict[str, dict[str, DataSet]]:
    """Meta-Album's form: sets of data sets, each with OpenML's ids in the order of `SIZES`."""
    buckets = [b.rstrip("/") for b in table.pop("buckets")]
    sets = {k: table.pop(k) for k in [k for k, v in table.items() if isinstance(v, dict)]}
    base = DataSet(name=name, archives=(), **table)
    found: dict[str, dict[str, DataSet]] = {}
    for set_name, members in sets.items():
        together: dict[str, list[Archive]] = {}
        for dataset, ids in members.items():
            key = f"{name}-{dataset.lower().replace('_', '-')}"
            for size, number in zip(SIZES, ids, strict=False):
                listings = tuple(
                    f"{b}?list-type=2&prefix={number // 10000:04d}%2F{number:04d}%2F&max-keys=100" for b in buckets
                )
                archive = Archive(f"{dataset}_{size.title()}.zip", listings=listings)
                together.setdefault(size, []).append(archive)
                title = f"{base.title} {dataset}, {size} (OpenML {number})"
                entry = replace(base, name=key, title=title, archives=(archive,), size=size)
                found.setdefault(key, {})[size] = entry
        for size, archives in together.items():
            title = f"{base.title} {set_name}, {size}: {len(archives)} data sets"
            entry = replace(base, name=f"{name}-{set_name}", title=title, archives=tuple(archives), size=size)
            found.setdefault(entry.name, {})[size] = entry
    return found
