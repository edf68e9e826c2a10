"""BF3S: boosting few-shot learning with rotations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.heads import CosineClassifier, cosine
from handful.methods.layers.imagetasks import Images, OnImages
from handful.methods.layers.rotation import TURNS, rotated
from handful.methods.metric.protonet import ProtoNet
from handful.methods.schedule import Schedule
from handful.methods.stages import Stage


class RotationBlock(nn.Module):
    """A residual block over the map, then a linear guess of the turn."""

    def __init__(self, width: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )
        self.last = nn.Linear(width, TURNS)

    def forward(self, maps: Tensor) -> Tensor:
        return self.last(F.relu(maps + self.body(maps)).mean((2, 3)))


def rotation_loss(m: nn.ModuleDict, x: Tensor) -> Tensor:
    """Cross-entropy of the turn over all four turns of every image."""
    turned, turns = rotated(x)
    backbone: Any = m["backbone"]
    return F.cross_entropy(m["rotation"](backbone.maps(turned).float()), turns)


@dataclass(frozen=True, kw_only=True)
class BF3S(OnImages, ProtoNet):
    """Gidaris, Bursuc, Komodakis, Pérez, Cord, "Boosting few-shot visual learning with self-supervision", ICCV 2019, on ProtoNet.

    The backbone is trained for the few-shot loss and for recognising by which quarter turn an image was rotated:
    L_few + α L_rotation, the rotation read from the map by a block of its own. Tasks are answered as ProtoNet answers them.

    Parameters
    ----------
    weight
        α = 1, as published.
    """

    weight: float = 1.0

    name: ClassVar[str] = "bf3s"

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {"rotation": RotationBlock(backbone.map_shape[0])}  # type: ignore[index, arg-type]

    def image_loss(self, m: nn.ModuleDict, images: Images) -> Tensor:
        return super().image_loss(m, images) + self.weight * rotation_loss(m, images.x)


@dataclass(frozen=True, kw_only=True)
class BF3SCosine(Embedded):
    """BF3S on a cosine classifier (Gidaris et al., ICCV 2019, "CC + rot"): the paper's strongest form.

    Pre-training on batches: cross-entropy of a cosine classifier over the training classes plus α times the rotation loss.
    A task: cosine to the mean of the support's features, as the paper has it (its code brings each to unit length before),
    times the learned scale.
    """

    schedule: Schedule = field(default_factory=lambda: Schedule(steps=2000, augment=("crop", "flip", "jitter")))
    weight: float = 1.0

    name: ClassVar[str] = "bf3s-cosine"

    def stages(self) -> list[Stage]:
        return [Stage("batches", self.schedule)]

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {
            "classifier": CosineClassifier(backbone.width, n_classes, 10.0, learn_scale=True),  # type: ignore[arg-type]
            "rotation": RotationBlock(backbone.map_shape[0]),  # type: ignore[index, arg-type]
        }

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        named = F.cross_entropy(m["classifier"](m["backbone"](x).float()), labels)
        return named + self.weight * rotation_loss(m, x)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        scale: Any = m["classifier"].scale
        return b.close(scale * cosine(b.q, b.prototypes()))
