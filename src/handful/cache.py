"""The cache: the one folder for what the library derives or fetches, what is in it, and keeping it below a limit."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import time
import uuid
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from handful.errors import BadInput
from handful.files import WRONG, read_json

OFF = ("0", "off", "no", "false")
KINDS = ("features", "shipped", "clip", "collections", "sentences", "maps", "studio")
LIMIT_GB = 20.0


def keeps() -> bool:
    """Whether anything is kept between runs: HANDFUL_CACHE=off says no."""
    return os.environ.get("HANDFUL_CACHE", "").lower() not in OFF


def cache_folder() -> Path:
    """``HANDFUL_CACHE``, else the platform's user cache; with ``HANDFUL_CACHE=off`` a folder that ends with the process."""
    if not keeps():
        return _passing()
    return Path(os.environ.get("HANDFUL_CACHE") or _platform())


def datasets_folder() -> Path:
    """Where `handful data get` puts data sets unless told; they are no cache, so ``HANDFUL_CACHE=off`` does not move them."""
    return (cache_folder() if keeps() else _platform()) / "datasets"


def _platform() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "handful"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "handful"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "handful"


@cache
def _passing() -> Path:
    folder = tempfile.mkdtemp(prefix="handful-cache-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@dataclass(frozen=True)
class CacheEntry:
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


def entries() -> list[CacheEntry]:
    """Everything in the cache, the largest first."""
    out = []
    for kind in KINDS:
        place = cache_folder() / kind
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            inside = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
            sizes = [_size(p) for p in inside]
            out.append(CacheEntry(path, kind, _what(path), sum(sizes), _used(path)))
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
        facts = read_json(path / "about.json")
        return f"{facts['net']} over {facts['collection']}"
    except (OSError, *WRONG):
        return "unfinished writing" if path.name.startswith(".") else path.name


def clear(older_than: float = 0.0, kinds: tuple[str, ...] = KINDS) -> list[CacheEntry]:
    """Remove what was not used for so many seconds; what was removed."""
    return [e for e in entries() if e.kind in kinds and time.time() - e.used >= older_than and remove(e)]


def remove(entry: CacheEntry) -> bool:
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


def trim(keep: Path | None = None) -> list[CacheEntry]:
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
