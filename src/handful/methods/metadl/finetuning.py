"""Fine-tuning: pre-train on batches of all training classes, then train a new last layer for each task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.metadl.adam import fit_linear_adam
from handful.methods.schedule import Schedule
from handful.methods.stages import Stage
from handful.nets.given import Net


@dataclass(frozen=True, kw_only=True)
class FineTuning(Embedded):
    """Fine-tuning as a baseline of Cross-Domain MetaDL (Carrión-Ojeda et al., 2022, E.2 and Table 2).

    The backbone is pre-trained by cross-entropy on batches from all training data sets together. A task: everything is
    frozen but a new last layer, which is trained on the support by Adam: W ← W - α Adam(∇ CE(W f(x) + b, y)).

    Parameters
    ----------
    steps, rate, task_batch
        100 iterations of Adam at 0.001 in batches of 4 (Table 2); pre-training is Adam at 0.001 in batches of 16.
    """

    net: Net = "resnet18"
    steps: int = 100
    rate: float = 0.001
    task_batch: int = 4
    schedule: Schedule = field(default_factory=lambda: Schedule(steps=30_000, batch=16))

    name: ClassVar[str] = "fine-tuning"
    tunes: ClassVar[bool] = True

    def stages(self) -> list[Stage]:
        return [Stage("batches", self.schedule)]

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {"classifier": nn.Linear(backbone.width, n_classes)}  # type: ignore[arg-type]

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(m["classifier"](m["backbone"](x).float()), labels)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return fit_linear_adam(b, steps=self.steps, rate=self.rate, size=self.task_batch)
