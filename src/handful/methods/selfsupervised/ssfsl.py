"""SSFSL: rotation and jigsaw beside ProtoNet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.layers.imagetasks import Images, OnImages
from handful.methods.layers.jigsaw import PIECES, puzzles
from handful.methods.layers.rotation import TURNS, rotated
from handful.methods.metric.protonet import ProtoNet


def pooled(backbone: nn.Module, x: Tensor) -> Tensor:
    """Maps averaged over place: what an auxiliary head reads, whatever the size of its images."""
    net: Any = backbone
    return net.maps(x).mean((2, 3)).float()


class RotationHead(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.5), nn.Linear(width, 128), nn.ReLU(), nn.Linear(128, TURNS)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class JigsawHead(nn.Module):
    """Each patch through one layer, all nine side by side through another, then the order."""

    def __init__(self, width: int, n_orders: int, hidden: int):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.5))
        self.all = nn.Sequential(nn.Linear(PIECES * width, hidden), nn.ReLU(), nn.Linear(hidden, n_orders))

    def forward(self, x: Tensor) -> Tensor:
        return self.all(self.each(x).flatten(1))


@dataclass(frozen=True, kw_only=True)
class SSFSL(OnImages, ProtoNet):
    """Su, Maji, Hariharan, "When does self-supervision improve few-shot learning?", ECCV 2020, on ProtoNet.

    The prototypical loss and a self-supervised one share the backbone: (1 - λ) L_proto + λ L_self. ``rotation`` guesses
    which quarter turn an image has made; ``jigsaw`` which of 35 orders its nine patches are in. Tasks are answered as
    ProtoNet answers them.

    Parameters
    ----------
    task
        The auxiliary task; ``both`` takes the mean of the two losses.
    weight
        λ = 0.5, the public code's default (the paper chooses it on validation).
    orders, hidden
        35 permutations as published; 4,096 units as published would be most of a small model, so 512 here.

    Notes
    -----
    Both tasks use the step's own support and query images, as in the paper; every image is shown in all four turns.
    The two auxiliary losses are not combined in the public code; the benchmark that reports "rotation + jigsaw" does not
    say how it does.
    """

    task: Literal["rotation", "jigsaw", "both"] = "rotation"
    weight: float = 0.5
    orders: int = 35
    hidden: int = 512

    name: ClassVar[str] = "ssfsl"

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1 or self.orders < 2:
            raise BadInput(f"{self.name} needs a weight in [0, 1] and at least two orders")

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        width: int = backbone.map_shape[0]  # type: ignore[index, assignment]
        found: dict[str, nn.Module] = {}
        if self.task in ("rotation", "both"):
            found["rotation"] = RotationHead(width)
        if self.task in ("jigsaw", "both"):
            found["jigsaw"] = JigsawHead(width, self.orders, self.hidden)
        return found

    def self_losses(self, m: nn.ModuleDict, images: Images) -> list[Tensor]:
        found = []
        if "rotation" in m:
            turned, turns = rotated(images.x)
            found.append(F.cross_entropy(m["rotation"](pooled(m["backbone"], turned)), turns))
        if "jigsaw" in m:
            pieces, order = puzzles(images.x, images.generator, n_orders=self.orders)
            features = pooled(m["backbone"], pieces.flatten(0, 1)).unflatten(0, pieces.shape[:2])
            found.append(F.cross_entropy(m["jigsaw"](features), order))
        return found

    def image_loss(self, m: nn.ModuleDict, images: Images) -> Tensor:
        losses = self.self_losses(m, images)
        extra = sum(losses) / len(losses)
        return (1 - self.weight) * super().image_loss(m, images) + self.weight * extra
