"""Shipping: collections, models and features on their way to another node.

A node that sees the same content under the same path uses it there; otherwise the files are shipped once, in blocks, into the
node's own cache under their content hash, verified, and renamed into place.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handful.cache import cache_folder, trim
from handful.data.collection import Card, Collection, open_packed
from handful.data.store import ARRAYS, content_hash
from handful.errors import HandfulError
from handful.files import file_digest, fresh_folder
from handful.runs.embedding import EmbeddedRows
from handful.runs.matrix import Folder

BLOCK = 8 << 20

Read = Callable[[str, str, int, int], bytes]
"""``(key, file name, offset, length)`` to bytes, from wherever the sender is."""


@dataclass(frozen=True)
class Parcel:
    """A folder by its content.

    Parameters
    ----------
    path
        Where the sender has it.
    key
        Hash of the content: the card's for a collection, of names and files for anything else.
    files
        Name, length and hash of each file; no hash for those that the collection's own hash covers.
    share
        Whether a node may use ``path`` if it finds the same content there.
    """

    path: str
    key: str
    files: tuple[tuple[str, int, str], ...]
    collection: bool = False
    share: bool = True


def parcel_of(path: Path, share: bool = True) -> Parcel:
    """A packed collection, a model folder or a single file, ready to be sent."""
    path = path.resolve()
    if path.is_file():
        digest = file_digest(path)
        return Parcel(str(path.parent), digest, ((path.name, path.stat().st_size, digest),), share=share)
    names = sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())
    names = [n for n in names if not any(part.startswith(".") for part in Path(n).parts) and n != "verified.json"]
    packed = (path / "card.json").is_file()
    card = Card.read(path / "card.json") if packed else None
    covered = {ARRAYS[card.kind], "labels.parquet"} if card else set()
    files = tuple((n, (path / n).stat().st_size, "" if n in covered else file_digest(path / n)) for n in names)
    key = hashlib.sha256(json.dumps([card.hash if card else "", files]).encode()).hexdigest()
    return Parcel(str(path), key, files, packed, share)


def holds(folder: Path, parcel: Parcel) -> bool:
    """Whether a folder has exactly the parcel's content; arrays are hashed unless they were verified before."""
    try:
        for name, size, digest in parcel.files:
            if (folder / name).stat().st_size != size or (digest and file_digest(folder / name) != digest):
                return False
        if parcel.collection:
            open_packed(folder)
    except (OSError, HandfulError):
        return False
    return True


_PLACES: dict[str, Path] = {}
_CHANNEL: list[Read] = []


def connect(read: Read) -> None:
    """Say how this process asks the sender for bytes, and forget what another sender sent."""
    _CHANNEL[:] = [read]
    _PLACES.clear()


def arrive(parcel: Parcel) -> Path:
    """The parcel's folder on this node: the sender's path if its content is here, else this node's own copy."""
    place = _PLACES.get(parcel.key)
    if place is None:
        same = Path(parcel.path)
        place = same if parcel.share and holds(same, parcel) else fetch(parcel, _CHANNEL[0], cache_folder() / "shipped")
        _PLACES[parcel.key] = place
    return place


def arrive_collection(parcel: Parcel) -> Collection:
    return open_packed(arrive(parcel))


def fetch(parcel: Parcel, read: Read, shelf: Path) -> Path:
    """This node's copy, shipped if it is not there; processes of one node wait for the first of them."""
    target = shelf / parcel.key[:32]
    with _alone(shelf / f".{target.name}.lock"):
        if target.is_dir():
            os.utime(target)
            return target
        with fresh_folder(target) as folder:
            for name, size, digest in parcel.files:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                got = hashlib.sha256()
                with open(folder / name, "wb") as stream:
                    for offset in range(0, size, BLOCK):
                        block = read(parcel.key, name, offset, min(BLOCK, size - offset))
                        got.update(block)
                        stream.write(block)
                if digest and got.hexdigest() != digest:
                    raise HandfulError(f"{name} of {parcel.path} changed while it was shipped; start the run again")
            if parcel.collection:
                card = Card.read(folder / "card.json")
                if content_hash(folder, card.kind) != card.hash:
                    raise HandfulError(f"{parcel.path} changed while it was shipped; start the run again")
    trim(keep=target)
    return target


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """A lock between processes of one node; the system lets it go when its holder dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


class Depot:
    """Reads blocks of the files that this run offers, and of no others."""

    def __init__(self) -> None:
        self.offered: dict[str, str] = {}
        self.bytes = 0

    def offer(self, parcels: dict[str, str]) -> None:
        self.offered.update(parcels)

    def read(self, key: str, name: str, offset: int, length: int) -> bytes:
        root = Path(self.offered[key])
        path = (root / name).resolve()
        if root not in path.parents:
            raise HandfulError(f"{name} is not a file of {root}")
        with open(path, "rb") as stream:
            stream.seek(offset)
            block = stream.read(length)
        self.bytes += len(block)
        return block

    def shipped(self) -> int:
        """Bytes sent so far."""
        return self.bytes


def pack_context(context: Any, share: bool, pickler: Any = pickle.Pickler) -> tuple[bytes, list[Parcel]]:
    """A context as bytes in which collections on disk, model folders and mapped features are parcels."""
    sent: dict[str, Parcel] = {}

    def send(path: Path) -> Parcel:
        place = str(path.resolve())
        if place not in sent:
            sent[place] = parcel_of(path, share)
        return sent[place]

    class Pickler(pickler):
        def reducer_override(self, obj: Any) -> Any:
            if type(obj) is Collection and obj.path is not None:
                return arrive_collection, (send(obj.path),)
            if isinstance(obj, EmbeddedRows) and obj.path is not None:
                return _arrive_features, (obj.rows, obj.path.name, send(obj.path))
            if isinstance(obj, Folder):
                return _arrive_folder, (send(obj.path),)
            return super().reducer_override(obj)

    stream = io.BytesIO()
    Pickler(stream, protocol=5).dump(context)
    return stream.getvalue(), list(sent.values())


def _arrive_folder(parcel: Parcel) -> Folder:
    return Folder(arrive(parcel))


def _arrive_features(rows: Any, name: str, parcel: Parcel) -> EmbeddedRows:
    return EmbeddedRows(rows, arrive(parcel) / name)
