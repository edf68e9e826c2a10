"""Data sets that describe themselves in MLCommons' Croissant, where it names images and classes in local tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, ClassVar

from handful.data.importers import Importer, Listing, split_in
from handful.data.importers.hf import HuggingFaceTables
from handful.data.sources import Source
from handful.errors import BadInput
from handful.files import WRONG, file_digest, parse_json

FILE = "croissant.json"


@dataclass(frozen=True)
class Croissant(Importer):
    """``croissant.json`` (1.0) beside Parquet files: record sets with a field of images give rows, their names splits.

    Files are compared with the SHA-256 that the description gives. Nothing is downloaded: addresses elsewhere are refused.

    Parameters
    ----------
    labels
        Columns that make the class, joined by commas; unless given, the fields that the description calls labels or that refer to its
        list of classes.
    context
        The column of contexts, if there is one.
    """

    labels: str = ""
    context: str = ""

    name: ClassVar[str] = "croissant"
    size: ClassVar[int] = 84
    grey: ClassVar[bool] = False

    def read(self, source: Source) -> Listing:
        found = source.named(FILE)
        if not found:
            raise BadInput(
                f"{source.path} holds no {FILE}; give the folder of a data set that describes itself in Croissant"
            )
        where = source.where(found[0])
        try:
            said = parse_json(source.text(found[0]))
            files = {x["@id"]: x for x in _list(said["distribution"])}
            sets = {x["@id"]: x for x in _list(said["recordSet"])}
            splits: dict[str, str] = {}
            images, labels, names = set(), [], {}
            for key, records in sets.items():
                fields = _list(records.get("field"))
                pictures = [f for f in fields if any("ImageObject" in str(t) for t in _list(f.get("dataType")))]
                for field in pictures:
                    images.add(str(field["source"]["extract"]["column"]))
                    for table in _tables(source, field["source"], files, where):
                        splits[table] = split_in(str(key)) or split_in(table)
                for field in fields if pictures else ():
                    to = str(((field.get("references") or {}).get("field") or {}).get("@id", ""))
                    if to or any(str(t).endswith("Label") for t in _list(field.get("dataType"))):
                        column = str(field["source"]["extract"]["column"])
                        labels.append(column)
                        names[column] = _names(sets, to)
            licence, citation = str(said.get("license") or "unknown"), str(said.get("citeAs") or "")
        except WRONG as error:
            raise BadInput(f"{where} is not a description in Croissant 1.0 ({error!r}); make it again") from error
        if not splits or len(images) != 1:
            raise BadInput(
                f"{where} describes {len(images)} columns of images in tables beside it, and one is needed; give the "
                "images with --as hf, csv or folders"
            )
        wanted = self.labels or ",".join(dict.fromkeys(labels))
        features = {c: {"_type": "ClassLabel", "names": n} for c, n in names.items() if n}
        tables = HuggingFaceTables(image=images.pop(), labels=wanted, context=self.context)
        return tables.listing(source, splits, features, licence, citation)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _tables(source: Source, field: dict[str, Any], files: dict[str, Any], where: str) -> Iterator[str]:
    """The tables that a field is taken from, each as described."""
    named = field.get("fileObject") or field["fileSet"]
    about = files[named["@id"]]
    if "includes" in about:
        patterns = [str(p) for p in _list(about["includes"])]
        found = [n for n in source.tables if any(fnmatchcase(n, p) for p in patterns)]
        if not found:
            raise BadInput(f"{where}: no table here is called {patterns[0]}; add the files")
        yield from found
        return
    name = str(PurePosixPath(about["contentUrl"]))
    if name not in source.names:
        raise BadInput(f"{where}: {about['contentUrl']} is not in {source.path}; download it to there first")
    expected = about.get("sha256")
    if expected and (got := file_digest(source.table(name).path)) != expected:
        raise BadInput(
            f"{source.where(name)} is not the file described: its SHA-256 is {got[:12]}..., not {expected[:12]}..."
        )
    yield name


def _names(sets: dict[str, Any], field: str) -> list[str]:
    """The names of classes by number, from the records that a field refers to."""
    records = sets.get(field.rpartition("/")[0]) or {}
    rows = [r for r in _list(records.get("data")) if isinstance(r, dict) and isinstance(r.get(field), int)]
    rows.sort(key=lambda r: r[field])
    if [r[field] for r in rows] != list(range(len(rows))):
        return []
    return [str(next(v for k, v in r.items() if k != field)) for r in rows]
