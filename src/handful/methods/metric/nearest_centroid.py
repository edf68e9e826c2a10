"""Nearest class mean on pixels or frozen features: the floor under every other method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from handful.methods.metric.protonet import ProtoNet
from handful.methods.stages import Stage
from handful.nets.given import Net


@dataclass(frozen=True, kw_only=True)
class NearestCentroid(ProtoNet):
    """Class means of pixels, or of a frozen backbone's features; nothing is trained.

    ``net="lite0"`` gives prototypes over pretrained features.
    """

    net: Net = "pixels"

    name: ClassVar[str] = "nearest-centroid"

    def stages(self) -> list[Stage]:
        return []
