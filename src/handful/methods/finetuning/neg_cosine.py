"""Neg-Cosine: a cosine classifier pre-trained with a negative margin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.finetuning.baseline import Baseline
from handful.methods.heads import CosineClassifier, fit_linear


@dataclass(frozen=True, kw_only=True)
class NegCosine(Baseline):
    """Neg-Cosine (Liu, Cao, Lin, Li, Zhang, Long, Hu, "Negative margin matters", ECCV 2020).

    Pre-training minimises -log e^{β(s_y - m)} / (e^{β(s_y - m)} + Σ_{j≠y} e^{β s_j}) with s the cosines to the class
    weights and m below 0: images may lie nearer to other classes' weights, which spares what new classes may need. A task
    gets a cosine classifier of its own, without margin.

    Parameters
    ----------
    margin, beta
        -0.02 and 30, the public code's for miniImageNet with ResNets (-0.3 is its margin for inner products, Neg-Softmax).
    task_scale
        β of the task's classifier; 5 as in the public code's test.
    """

    margin: float = -0.02
    beta: float = 30.0
    task_scale: float = 5.0

    name: ClassVar[str] = "neg-cosine"

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {"classifier": CosineClassifier(backbone.width, n_classes, 1.0)}  # type: ignore[arg-type]

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        return margin_loss(m["classifier"](m["backbone"](x).float()), labels, self.margin, self.beta)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return fit_linear(
            b,
            steps=self.passes,
            rate=self.rate,
            weight_decay=self.weight_decay,
            batch=self.task_batch,
            scale=self.task_scale,
        )


def margin_loss(cosines: Tensor, labels: Tensor, margin: float, beta: float) -> Tensor:
    """Cross-entropy of β · cosines, the true class's lowered by the margin."""
    own = F.one_hot(labels, cosines.shape[-1]).to(cosines.dtype)
    return F.cross_entropy(beta * (cosines - margin * own), labels)
