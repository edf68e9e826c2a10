"""Pre-training by cross-entropy over the training classes, the start of many methods."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.embedded import Embedded
from handful.methods.schedule import Schedule
from handful.methods.stages import Stage


@dataclass(frozen=True, kw_only=True)
class Pretrained(Embedded):
    """A backbone trained by cross-entropy with a linear classifier over the training classes."""

    schedule: Schedule = field(default_factory=lambda: Schedule(steps=2000, augment=("crop", "flip", "jitter")))

    def stages(self) -> list[Stage]:
        return [Stage("batches", self.schedule)]

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {"classifier": nn.Linear(backbone.width, n_classes)}  # type: ignore[arg-type]

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(m["classifier"](m["backbone"](x).float()), labels)
