"""What is in the cache folder: listing it, clearing it, keeping it below a limit."""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handful.data.cache import cache_folder
from handful.errors import BadInput

KINDS = ("features", "shipped", "clip", "collections")
LIMIT_GB = 20.0


@dataclass(frozen=True)
class Entry:
    """One folder of the cache, for `handful cache ls`."""

    path: Path
    kind: str
    what: str
    bytes: int
    used: float

    def as_dict(self) -> dict[str, Any]:
        age = max(0.0, time.time() - self.used)
        return {
            "path": str(self.path),
            "kind": self.kind,
            "what": self.what,
            "bytes": self.bytes,
            "unused_seconds": age,
        }


def entries() -> list[Entry]:
    """Everything in the cache, the largest first."""
    out = []
    for kind in KINDS:
        place = cache_folder() / kind
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            inside = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
            sizes = [_size(p) for p in inside]
            out.append(Entry(path, kind, _what(path), sum(sizes), _used(path)))
    return sorted(out, key=lambda e: -e.bytes)


def _size(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except OSError:
        return 0


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return time.time()


def _what(path: Path) -> str:
    try:
        facts = json.loads((path / "about.json").read_text(encoding="utf-8"))
        return f"{facts['net']} over {facts['collection']}"
    except (OSError, ValueError, KeyError, TypeError, UnicodeDecodeError):
        return "unfinished writing" if path.name.startswith(".") else path.name


def clear(older_than: float = 0.0, kinds: tuple[str, ...] = KINDS) -> list[Entry]:
    """Remove what was not used for so many seconds; what was removed."""
    return [e for e in entries() if e.kind in kinds and time.time() - e.used >= older_than and remove(e)]


def remove(entry: Entry) -> bool:
    """Renamed first: a reader that comes in between finds the whole entry or none of it."""
    aside = entry.path.with_name(f".{entry.path.name}-{uuid.uuid4().hex[:8]}")
    try:
        os.replace(entry.path, aside)
    except OSError:
        return False
    if aside.is_dir():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink(missing_ok=True)
    return True


def trim(keep: Path | None = None) -> list[Entry]:
    """Remove the features and shipped files unused for longest until the rest is below HANDFUL_CACHE_GB (20)."""
    text = os.environ.get("HANDFUL_CACHE_GB", "")
    try:
        limit = float(text) if text else LIMIT_GB
    except ValueError as error:
        raise BadInput(f"HANDFUL_CACHE_GB is {text!r}; set it to a number of gigabytes, or unset it") from error
    held = sorted((e for e in entries() if e.kind in ("features", "shipped")), key=lambda e: e.used)
    total, gone = sum(e.bytes for e in held), []
    for entry in held:
        if total <= limit * 1e9:
            break
        if entry.path != keep and remove(entry):
            total -= entry.bytes
            gone.append(entry)
    return gone
