"""Pre-training by cross-entropy over the training classes, the start of many methods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.embedded import Embedded
from handful.methods.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class Pretrained(Embedded):
    """A backbone trained by cross-entropy with a linear classifier over the training classes."""

    schedule: Schedule = field(default_factory=lambda: Schedule(steps=2000, augment=("crop", "flip", "jitter")))

    trains: ClassVar[Literal["tasks", "batches", "no"]] = "batches"
    learning: ClassVar[str] = "GL+TT"

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {"classifier": nn.Linear(backbone.width, n_classes)}  # type: ignore[arg-type]

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(m["classifier"](m["backbone"](x).float()), labels)
