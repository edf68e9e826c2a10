"""The one folder for what the library derives or fetches: parsed files, packed raw folders, data sets that were got."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """``HANDFUL_CACHE``, else the platform's user cache."""
    given = os.environ.get("HANDFUL_CACHE")
    if given:
        return Path(given)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "handful"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "handful"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "handful"


def datasets_folder() -> Path:
    """Where `handful data get` puts data sets unless told."""
    return cache_folder() / "datasets"
