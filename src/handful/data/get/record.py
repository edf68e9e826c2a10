"""The record of a data set that was got (``got.json``): which bytes, from where, and how far they were verified."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from handful.errors import BadInput
from handful.files import WRONG, read_json, write_atomically

NAME = "got.json"
BLOCK = 1 << 20


@dataclass(frozen=True)
class Fetched:
    """One archive as it lies on the disk.

    ``checked`` says what its bytes were compared with: sha256 or md5 (published), md5-of-server (as the server told),
    first-use (nothing is published: the bytes are what came first), unverified (the user asked for it).
    """

    file: str
    bytes: int
    sha256: str
    checked: str
    source: str


@dataclass(frozen=True)
class Record:
    """What a data set's folder holds."""

    name: str
    size: str | None = None
    layout: str = ""
    archives: tuple[Fetched, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def of(self, file: str) -> Fetched | None:
        return next((a for a in self.archives if a.file == file), None)

    def save(self, folder: Path) -> None:
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n"
        write_atomically(folder / NAME, lambda t: t.write_text(text, encoding="utf-8"))


def read_record(folder: Path) -> Record | None:
    """The folder's record, None where there is none."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        facts: dict[str, Any] = read_json(path)
        archives = tuple(Fetched(**a) for a in facts.pop("archives"))
        record = Record(**{**facts, "archives": archives, "notes": tuple(facts.get("notes", ()))})
        texts = [
            record.name,
            record.layout,
            *record.notes,
            *(t for a in archives for t in (a.file, a.sha256, a.checked)),
        ]
        if not all(isinstance(t, str) for t in texts) or not all(isinstance(a.bytes, int) for a in archives):
            raise ValueError("a name or a size is neither")
        return record
    except (OSError, *WRONG) as error:
        raise BadInput(f"{path} is not the record of a data set ({error}); remove it and get the data again") from error


def digests(path: Path, *kinds: str) -> dict[str, str]:
    """Hexadecimal digests of a file by the algorithms asked for, read once."""
    made = {k: hashlib.new(k, usedforsecurity=False) for k in kinds}
    with open(path, "rb") as stream:
        while block := stream.read(BLOCK):
            for digest in made.values():
                digest.update(block)
    return {k: d.hexdigest() for k, d in made.items()}
