"""Writing and reading the files of packed collections; hashes that notice changed bytes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from handful.errors import BadInput
from handful.files import WRONG, file_digest, fresh_folder, read_json, read_npy, write_atomically
from handful.frames import read_frame, write_frame

if TYPE_CHECKING:
    from handful.data.collection import Card, Collection

ARRAYS = {"images": "images.npy", "features": "features.npy"}
SKIPPED = "skipped.csv"
OVER, MASK = "over.json", "rows.npy"
"""Files of a folder that is a table and a mask over another collection's images."""
BESIDE = ("descriptions.npz", "taxonomy.csv", SKIPPED)
"""What is read beside a packed collection, and goes along with a mask over it."""


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


@dataclass(frozen=True, eq=False)
class Over:
    """A table and a mask over the rows of another collection, and the rule that tasks are meant to be drawn by.

    ``source`` is what opens that collection, ``id`` and ``hash`` are its own.
    """

    source: str
    id: str
    hash: str
    rows: np.ndarray
    table: pl.DataFrame
    rule: dict[str, Any] | None = None


def over_hash(
    of: str, n: int, rows: np.ndarray, table: pl.DataFrame, whole: pl.DataFrame, rule: dict[str, Any] | None
) -> str:
    """Hash of a collection under a mask: that of the collection itself where nothing is changed."""
    if len(rows) == n and rule is None and table.equals(whole):
        return of
    digest = hashlib.sha256(of.encode())
    digest.update(np.ascontiguousarray(rows, dtype="<i8").tobytes())
    digest.update(table_digest(table).encode())
    digest.update(json.dumps(rule, sort_keys=True).encode())
    return digest.hexdigest()


def write_over(folder: Path, place: Path, card: Card, over: Over) -> None:
    """Write card, table, mask and source into ``folder``, which will be called ``place``."""
    write_frame(over.table, folder / "labels.parquet")
    np.save(folder / MASK, np.asarray(over.rows, dtype=np.int64), allow_pickle=False)
    facts: dict[str, Any] = {"handful": "over", "source": over.source, "id": over.id, "hash": over.hash}
    if Path(over.source).exists():
        facts["beside"] = os.path.relpath(over.source, place)
    if over.rule is not None:
        facts["rule"] = over.rule
    (folder / OVER).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    (folder / "card.json").write_text(card.text(), encoding="utf-8")


def read_over(path: Path) -> Over:
    """What a folder says of the collection that it is a mask over."""
    try:
        facts = read_json(path / OVER)
        source, rule = str(facts["source"]), facts.get("rule")
        if facts["handful"] != "over" or not isinstance(rule, dict | None):
            raise ValueError("it says nothing of another collection")
        beside = path / str(facts.get("beside", ""))
        if facts.get("beside") and not Path(source).exists() and beside.exists():
            source = str(beside)
        rows = np.asarray(read_npy(path / MASK))
        if rows.ndim != 1 or rows.dtype.kind != "i" or (len(rows) and (rows.min() < 0 or (np.diff(rows) <= 0).any())):
            raise ValueError(f"{MASK} is no rising list of rows")
        table = read_frame(path / "labels.parquet")
        return Over(source, str(facts["id"]), str(facts["hash"]), rows, table, rule)
    except (OSError, *WRONG) as error:
        raise BadInput(f"{path} is no mask over a collection that can be read ({error}); repair it again") from error
