"""Baseline and Baseline++: a classifier trained on all training classes, a new last layer for each task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.heads import CosineClassifier, fit_linear
from handful.methods.schedule import Schedule

_SCHEDULE = Schedule(steps=2000, batch=64, augment=("crop", "flip", "jitter"))


@dataclass(frozen=True, kw_only=True)
class Baseline(Embedded):
    """Baseline (Chen, Liu, Kira, Wang, Huang, "A closer look at few-shot classification", ICLR 2019).

    Pre-training: cross-entropy with a linear classifier over the training classes, Adam 1e-3. A task: the backbone is
    frozen, a new linear layer is trained on the support by SGD (rate 0.01, momentum 0.9, dampening 0.9, weight decay
    0.001, 100 passes in batches of 4), as published.
    """

    schedule: Schedule = field(default=_SCHEDULE)
    passes: int = 100
    rate: float = 0.01
    weight_decay: float = 0.001
    task_batch: int = 4

    name: ClassVar[str] = "baseline"
    trains: ClassVar = "batches"
    learning: ClassVar[str] = "GL+TT"
    scale: ClassVar[float | None] = None

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {"classifier": nn.Linear(backbone.width, n_classes)}  # type: ignore[arg-type]

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(m["classifier"](m["backbone"](x).float()), labels)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return fit_linear(
            b,
            steps=self.passes,
            rate=self.rate,
            weight_decay=self.weight_decay,
            batch=self.task_batch,
            scale=self.scale,
        )


@dataclass(frozen=True, kw_only=True)
class BaselinePP(Baseline):
    """Baseline++ (Chen et al., ICLR 2019): both classifiers score by cosine similarity times ``scale``.

    The public code scales by 2 or 10 by data set; 10 here.
    """

    name: ClassVar[str] = "baseline++"
    scale: ClassVar[float | None] = 10.0

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {"classifier": CosineClassifier(backbone.width, n_classes, 10.0)}  # type: ignore[arg-type]
