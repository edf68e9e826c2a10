"""Writing and reading the files of packed collections; hashes that notice changed bytes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from handful.errors import BadInput
from handful.files import file_digest, fresh_folder, read_json, read_npy, write_atomically
from handful.frames import read_frame, write_frame

if TYPE_CHECKING:
    from handful.data.collection import Card, Collection

ARRAYS = {"images": "images.npy", "features": "features.npy"}
SKIPPED = "skipped.csv"


def content_hash(folder: Path, kind: str, table: pl.DataFrame | None = None) -> str:
    """Hash of the bytes of the array and of the values of the table."""
    digest = hashlib.sha256(file_digest(folder / ARRAYS[kind]).encode())
    digest.update(table_digest(pl.read_parquet(folder / "labels.parquet") if table is None else table).encode())
    return digest.hexdigest()


def table_digest(table: pl.DataFrame) -> str:
    return hashlib.sha256(table.write_csv().encode()).hexdigest()


def seal(folder: Path, card: Card, table: pl.DataFrame) -> Card:
    """Write table and card of a folder whose array is in place."""
    write_frame(table, folder / "labels.parquet")
    card = dataclasses.replace(card, hash=content_hash(folder, card.kind))
    (folder / "card.json").write_text(card.text(), encoding="utf-8")
    return card


def note_skipped(folder: Path, skipped: Sequence[tuple[str, str]]) -> None:
    """Keep the names of the files that were left out of a collection, and why, beside it."""
    if skipped:
        frame = pl.DataFrame(list(skipped), schema={"file": pl.String, "reason": pl.String}, orient="row")
        write_frame(frame, folder / SKIPPED, "csv")


def skipped_files(collection: Collection) -> list[tuple[str, str]]:
    """Files that packing left out as unreadable, each with the reason."""
    place = collection.path / SKIPPED if collection.path is not None else None
    if place is None or not place.is_file():
        return []
    try:
        found = pl.read_csv(place, schema={"file": pl.String, "reason": pl.String})
    except (OSError, pl.exceptions.PolarsError) as error:
        raise BadInput(f"{place} cannot be read ({error}); pack the collection again, or remove the file") from error
    return [(str(file), str(reason)) for file, reason in found.rows()]


def write_collection(collection: Collection, path: Path, force: bool = False) -> None:
    """Pack any collection (drawn, in memory, or mapped) into ``path``."""
    card = collection.card
    with fresh_folder(path, force) as folder:
        first = collection.read(np.arange(min(1, len(collection))))
        out = np.lib.format.open_memmap(
            folder / ARRAYS[card.kind], mode="w+", dtype=first.dtype, shape=(len(collection), *card.shape)
        )
        for start in range(0, len(collection), 1024):
            rows = np.arange(start, min(start + 1024, len(collection)))
            out[rows] = collection.read(rows)
        out.flush()
        del out
        seal(folder, card, collection.table)


def _stamp(folder: Path, kind: str) -> list[list[int]]:
    stats = [(folder / name).stat() for name in (ARRAYS[kind], "labels.parquet")]
    # The time of change is the kernel's to set: a mark that comes with a stranger's folder is never that of this one.
    return [[s.st_size, s.st_mtime_ns, s.st_ctime_ns] for s in stats]


def _mark(path: Path) -> Any:
    """The stamp of the last verified bytes; None if there is none that can be read, and they are verified again."""
    try:
        return read_json(path)
    except (OSError, ValueError):
        return None


def read_packed(path: Path, card: Card, verify: bool | None = None) -> tuple[pl.DataFrame, np.ndarray]:
    """Table and mapped array of a packed collection, checked against its card.

    The bytes are hashed again when size or time stamp differ from the last verified ones (``verify=True`` forces it,
    ``False`` skips it).
    """
    if card.kind not in ARRAYS:
        raise BadInput(f"{path / 'card.json'}: kind {card.kind!r} is neither images nor features; pack it again")
    for name in (ARRAYS[card.kind], "labels.parquet"):
        if not (path / name).is_file():
            raise BadInput(f"{path} lacks {name}; pack the collection again")
    mark = path / "verified.json"
    stamp = _stamp(path, card.kind)
    verified = _mark(mark) == stamp
    try:
        table = read_frame(path / "labels.parquet", trusted=verified)
        array = read_npy(path / ARRAYS[card.kind])
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read ({error}); pack the collection again") from error
    if array.shape[1:] != card.shape:
        raise BadInput(f"{path}: the array is {array.shape[1:]}, the card says {card.shape}; pack it again")
    if array.dtype.kind != ("u" if card.kind == "images" else "f"):
        raise BadInput(f"{path}: the array holds {array.dtype}, not {card.kind}; pack it again")
    if verify or (verify is None and not verified):
        try:
            found = content_hash(path, card.kind, table)
        except pl.exceptions.PolarsError as error:
            raise BadInput(f"{path}: the table of labels holds more than text and numbers; pack it again") from error
        if found != card.hash:
            raise BadInput(
                f"{path}: the bytes have changed since it was packed (hash {found[:12]}, card {card.hash[:12]}); "
                "restore it or pack it again"
            )
        try:
            write_atomically(mark, lambda t: t.write_text(json.dumps(stamp)))
        except OSError:
            pass  # a read-only folder is verified at each opening
    return table, array
