"""The front door: every public name of a package, lazily at run time, and known to editors and type checkers by a stub.

`write` makes the stubs (``__init__.pyi``) from the table below and the registry; a test says when they are out of date.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from handful import registry

NAMES: dict[str, dict[str, str]] = {
    "handful": {
        "__version__": "handful._version:__version__",
        "open": "handful.data.opening:open_collection",
        "from_frame": "handful.data.from_frame:from_frame",
        "world": "handful.data.world:world",
        "Collection": "handful.data.collection:Collection",
        "evaluate": "handful.runs.evaluate:evaluate",
        "Run": "handful.runs.run:Run",
        "Report": "handful.report.report:Report",
        "load": "handful.photos.model:load_any",
        "fit": "handful.photos.model:fit",
        "by_names": "handful.photos.named:by_names",
        "court": "handful.audits.court:court",
        "FewShotClassifier": "handful.photos.estimator:FewShotClassifier",
        "audit": "handful.audits.audit:audit",
        "Compute": "handful.nets.compute:Compute",
        "Schedule": "handful.methods.schedule:Schedule",
        "Support": "handful.tasks.episode:Support",
    },
    "handful.tasks": {
        "Episode": "handful.tasks.episode:Episode",
        "Query": "handful.tasks.episode:Query",
        "Support": "handful.tasks.episode:Support",
        "Task": "handful.tasks.episode:Task",
        "Rule": "handful.tasks.rule:Rule",
        "make": "handful.tasks.rule:make",
    },
    "handful.metrics": {
        "PairedTest": "handful.metrics.compare:PairedTest",
        "Estimate": "handful.metrics.base:Estimate",
        "Metric": "handful.metrics.base:Metric",
        "mean_interval": "handful.metrics.base:mean_interval",
        "paired": "handful.metrics.compare:paired",
    },
    "handful.nets": {
        "Backbone": "handful.nets.backbone:Backbone",
        "Compute": "handful.nets.compute:Compute",
        "build": "handful.nets.building:build",
    },
    "handful.methods": {
        "Learner": "handful.methods.contract:Learner",
        "Method": "handful.methods.contract:Method",
        "Predictor": "handful.methods.contract:Predictor",
        "load": "handful.methods.contract:load",
        "make": "handful.methods.contract:make",
    },
    "handful.audits": {"Audit": "handful.audits.audit:Audit"},
    "handful.repair": {
        "propose": "handful.repair.repair:propose",
        "apply": "handful.repair.repair:apply",
        "undone": "handful.repair.repair:undone",
        "Plan": "handful.repair.plan:Plan",
        "Entry": "handful.repair.kinds:Entry",
    },
}
KINDS = {
    "handful.tasks": "rules",
    "handful.metrics": "metrics",
    "handful.nets": "nets",
    "handful.methods": "methods",
    "handful.audits": "diagnoses",
    "handful.repair": "repairs",
}
FOLDERS = ("data", "tasks", "metrics", "nets", "methods", "runs", "photos", "report", "audits", "repair", "challenge")


def names(package: str, plugged: bool = True) -> dict[str, str]:
    """Every public name of a package and where it lives; what plug-ins add only if asked for."""
    kind = KINDS.get(package, "")
    known = (registry.table(kind) if plugged else registry.BUILTIN[kind]) if kind else {}
    return {**{target.partition(":")[2]: target for target in known.values()}, **NAMES[package]}


def open_door(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package."""

    def get(name: str) -> Any:
        known = names(package)
        if name in known:
            module, _, attribute = known[name].partition(":")
            return getattr(importlib.import_module(module), attribute)
        if package == "handful" and name in FOLDERS:
            return importlib.import_module(f"handful.{name}")
        from handful.errors import nearest

        raise AttributeError(f"{package} has no {name!r}; {nearest(name, known)}" if name[:1] != "_" else name)

    def listing() -> list[str]:
        return sorted({*vars(sys.modules[package]), *names(package), *(FOLDERS if package == "handful" else ())})

    return get, listing


def stub(package: str) -> str:
    """The text of a package's stub: what type checkers and editors see of it."""
    groups: dict[str, list[str]] = {}
    for name, target in names(package, plugged=False).items():
        module, _, attribute = target.partition(":")
        groups.setdefault(module, []).append(attribute if name == attribute else f"{attribute} as {name}")
    if package == "handful":
        groups["handful"] = list(FOLDERS)
    lines = ["# Written by handful.door.write() from the registry.", ""]
    lines += [f"from {module} import {one}" for module in sorted(groups) for one in sorted(groups[module])]
    public = sorted({*names(package, plugged=False), *groups.get("handful", ())})
    return "\n".join([*lines, "", "__all__ = [", *(f'    "{name}",' for name in public), "]"]) + "\n"


def stub_path(package: str) -> Path:
    return Path(__file__).parent.joinpath(*package.split(".")[1:], "__init__.pyi")


def write() -> None:
    for package in NAMES:
        stub_path(package).write_text(stub(package), encoding="utf-8")
