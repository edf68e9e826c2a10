"""SKD-GEN0: rotation as a second question on the class scores in pre-training, then logistic regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.finetuning.rfs import RFS
from handful.methods.layers.rotation import TURNS, rotated


@dataclass(frozen=True, kw_only=True)
class SKD(RFS):
    """SKD, generation zero (Rajasegaran, Khan, Hayat, Khan, Shah, "Self-supervised knowledge distillation for few-shot
    learning", BMVC 2021), without the distillation of its generation one.

    Every image is shown in four quarter turns; the class is asked of each, and a further linear layer must tell the turn
    from the class scores: L = CE(p, y) + weight · BCE(Ψ(p), one-hot turn). A task is learned as in RFS.

    Parameters
    ----------
    weight
        Of the rotation loss; 2, the public code's default.
    """

    weight: float = 2.0

    name: ClassVar[str] = "skd-gen0"

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {**super().extras(backbone, n_classes), "turn": nn.Linear(n_classes, TURNS)}

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        turned, turns = rotated(x)
        scores = m["classifier"](m["backbone"](turned).float())
        asked = F.one_hot(turns, TURNS).to(scores.dtype)
        turn_loss = F.binary_cross_entropy_with_logits(m["turn"](scores), asked)
        return F.cross_entropy(scores, labels.repeat(TURNS)) + self.weight * turn_loss
