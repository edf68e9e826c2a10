"""Baseline and Baseline++: a classifier trained on all training classes, a new last layer for each task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.heads import CosineClassifier, fit_linear
from handful.methods.layers.pretrained import Pretrained


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
    tunes: ClassVar[bool] = True
    cosine: ClassVar[dict[str, Any]] = {}

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return fit_linear(
            b,
            steps=self.passes,
            rate=self.rate,
            weight_decay=self.weight_decay,
            batch=self.task_batch,
            **self.cosine,
        )


@dataclass(frozen=True, kw_only=True)
class BaselinePP(Baseline):
    """Baseline++ (Chen et al., ICLR 2019): both classifiers score by cosine similarity, times a learned norm of each class.

    Parameters
    ----------
    scale
        2, as wyharveychen/CloserLookFewShot (e03aca8) has it for up to 200 classes; 10 above.
    """

    scale: float = 2.0

    name: ClassVar[str] = "baseline++"

    @property
    def cosine(self) -> dict[str, Any]:  # type: ignore[override]
        return {"scale": self.scale, "learn_norm": True}

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        scale = self.scale if n_classes <= 200 else 5 * self.scale
        return {"classifier": CosineClassifier(backbone.width, n_classes, scale, learn_norm=True)}  # type: ignore[arg-type]
