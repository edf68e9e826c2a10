"""handful: few-shot, compositional and zero-shot benchmarks. How good is my method, and is my benchmark honest?"""

from __future__ import annotations

import importlib
from typing import Any

from handful._version import __version__

_LAZY = {
    "open": "handful.data.opening:open_collection",
    "world": "handful.data.world:world",
    "Collection": "handful.data.collection:Collection",
    "evaluate": "handful.runs.evaluate:evaluate",
    "Run": "handful.runs.run:Run",
    "Report": "handful.report.report:Report",
    "load": "handful.photos.model:load_any",
    "fit": "handful.photos.model:fit",
    "audit": "handful.audits.audit:audit",
    "Compute": "handful.nets.compute:Compute",
    "Schedule": "handful.methods.schedule:Schedule",
    "Support": "handful.tasks.episode:Support",
}
_FOLDERS = ("data", "tasks", "metrics", "nets", "methods", "runs", "photos", "report", "audits", "challenge")

__all__ = ["__version__", *_FOLDERS, *_LAZY]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        module, _, attribute = _LAZY[name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    if name in _FOLDERS:
        return importlib.import_module(f"handful.{name}")
    raise AttributeError(f"module 'handful' has no attribute {name!r}")
