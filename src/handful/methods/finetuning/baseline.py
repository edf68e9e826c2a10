"""Baseline and Baseline++: a classifier trained on all training classes, a new last layer for each task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.heads import CosineClassifier, fit_linear
from handful.methods.pieces.pretrained import Pretrained


@dataclass(frozen=True, kw_only=True)
class Baseline(Pretrained):
    """Baseline (Chen, Liu, Kira, Wang, Huang, "A closer look at few-shot classification", ICLR 2019).

    Pre-training: cross-entropy with a linear classifier over the training classes, Adam 1e-3. A task: the backbone is
    frozen, a new linear layer is trained on the support by SGD (rate 0.01, momentum 0.9, dampening 0.9, weight decay
    0.001, 100 passes in batches of 4), as published.
    """

    passes: int = 100
    rate: float = 0.01
    weight_decay: float = 0.001
    task_batch: int = 4

    name: ClassVar[str] = "baseline"
    scale: ClassVar[float | None] = None

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

    The public code scales by 2 where there are at most 200 classes, tasks among them, and by 10 above, and multiplies
    each class's cosine by a learned norm that starts near 0.6; here the scale is 10 and fixed.
    """

    name: ClassVar[str] = "baseline++"
    scale: ClassVar[float | None] = 10.0

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {"classifier": CosineClassifier(backbone.width, n_classes, 10.0)}  # type: ignore[arg-type]
