"""The one folder for what the library derives or fetches: parsed files, packed raw folders, data sets that were got."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

OFF = ("0", "off", "no", "false")


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
