"""One lazy table of names per kind of thing, plus entry points for plug-ins.

Listing names never imports the modules behind them; ``get`` imports one. A plug-in adds a name with the entry-point
group ``handful.<kind>`` (for example ``handful.methods``).
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from handful.errors import BadInput, nearest

BUILTIN: dict[str, dict[str, str]] = {
    "importers": {
        "folders": "handful.data.importers.folders:Folders",
        "meta-album": "handful.data.importers.meta_album:MetaAlbum",
        "concept-context": "handful.data.importers.concept_context:ConceptContext",
        "omniglot": "handful.data.importers.omniglot:Omniglot",
        "csv": "handful.data.importers.csv:Csv",
    },
    "rules": {
        "n-way": "handful.tasks.nway:NWay",
        "any-way": "handful.tasks.anyway:AnyWay",
    },
    "metrics": {
        "accuracy": "handful.metrics.accuracy:Accuracy",
    },
    "nets": {
        "conv4": "handful.nets.conv4:Conv4",
        "resnet12": "handful.nets.resnet12:ResNet12",
        "resnet18": "handful.nets.resnet:ResNet18",
        "lite0": "handful.nets.lite0:Lite0",
        "pixels": "handful.nets.pixels:Pixels",
    },
    "methods": {
        "protonet": "handful.methods.metric.protonet:ProtoNet",
        "matchingnet": "handful.methods.metric.matchingnet:MatchingNet",
        "baseline": "handful.methods.finetuning.baseline:Baseline",
        "baseline++": "handful.methods.finetuning.baseline:BaselinePP",
        "nearest-centroid": "handful.methods.metric.nearest_centroid:NearestCentroid",
        "maml": "handful.methods.gradient.maml:MAML",
        "fo-maml": "handful.methods.gradient.maml:FOMAML",
    },
    "collections": {},
    "diagnoses": {},
}

# Methods of the papers that are not in the library (yet): shown by `handful ls methods --all`, never faked.
MISSING: dict[str, str] = {}


@cache
def table(kind: str) -> dict[str, str]:
    """All names of one kind, built in or plugged in, with where each one lives."""
    if kind not in BUILTIN:
        raise BadInput(f"there is no registry of {kind!r}; {nearest(kind, BUILTIN)}")
    names = dict(BUILTIN[kind])
    for point in entry_points(group=f"handful.{kind}"):
        names.setdefault(point.name, point.value)
    return names


def names(kind: str) -> list[str]:
    return sorted(table(kind))


@cache
def get(kind: str, name: str) -> Any:
    """Import and return what ``name`` stands for, or say which names come near."""
    known = table(kind)
    if name not in known:
        raise BadInput(f"there is no {kind.rstrip('s')} named {name!r}; {nearest(name, known)}")
    module, _, attribute = known[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def everything(kind: str) -> Iterator[tuple[str, Any]]:
    for name in names(kind):
        yield name, get(kind, name)
