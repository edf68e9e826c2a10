"""Nearest class mean on pixels or frozen features: the floor under every other method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from handful.methods.metric.protonet import ProtoNet


@dataclass(frozen=True, kw_only=True)
class NearestCentroid(ProtoNet):
    """Class means of pixels, or of a frozen backbone's features; nothing is trained.

    ``net="lite0"`` gives prototypes over pretrained features.
    """

    net: str = "pixels"

    name: ClassVar[str] = "nearest-centroid"
    trains: ClassVar[Literal["tasks", "batches", "no"]] = "no"
    learning: ClassVar[str] = ""
