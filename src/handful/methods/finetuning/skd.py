"""SKD: rotation as a second question on the class scores in pre-training, self-distillation, then logistic regression."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.finetuning.rfs import RFS
from handful.methods.layers.rotation import TURNS, rotated
from handful.methods.schedule import Schedule
from handful.methods.stages import Loss, Stage
from handful.methods.training import loss_on_batches
from handful.tasks.rule import Rule


@dataclass(frozen=True, kw_only=True)
class SKD(RFS):
    """SKD (Rajasegaran, Khan, Hayat, Khan, Shah, "Self-supervised knowledge distillation for few-shot learning", BMVC 2021).

    Generation zero: every image is shown in four quarter turns; the class is asked of each, and a further linear layer must
    tell the turn from the class scores: L = CE(p, y) + weight · BCE(Ψ(p), one-hot turn). Generation one, if ``distil`` has
    steps: a copy of that network learns its scores, at a temperature, and to give a turned image the scores of the image:
    L = T² KL(p' / T, p / T) + closeness · mean over turns of |p'(turned x) - p'(x)|. A task is learned as in RFS.

    Parameters
    ----------
    weight
        Of the rotation loss; 2, the public code's default.
    distil
        Schedule of generation one; no steps by default, which is generation zero alone. SGD 0.001 with momentum 0.9, weight
        decay 5e-4 and a tenth of the rate at the end, as published.
    temperature, closeness
        2 and 0.1, as the public code's commands have them.

    Notes
    -----
    At the commit that was looked at (brjathu/SKD, 0a28dc5) generation one's script names a turn that it does not make, and
    compares one turn of three with the image; here all three are, as the lines beside it and the paper say.
    """

    weight: float = 2.0
    distil: Schedule = field(
        default=Schedule(
            steps=0,
            batch=64,
            optimiser="sgd",
            rate=0.001,
            weight_decay=5e-4,
            milestones=(0.9,),
            augment=("crop", "flip", "jitter"),
        ),
        metadata={"later": True},
    )
    temperature: float = field(default=2.0, metadata={"later": True})
    closeness: float = field(default=0.1, metadata={"later": True})

    name: ClassVar[str] = "skd-gen0"

    def stages(self) -> list[Stage]:
        zero = super().stages()
        one = Stage("batches", self.distil, learns=("backbone", "classifier"), folder="distil", loss=self.loss_of_copy)
        return [*zero, one] if self.distil.steps else zero

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {**super().extras(backbone, n_classes), "turn": nn.Linear(n_classes, TURNS)}

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        turned, turns = rotated(x)
        scores = m["classifier"](m["backbone"](turned).float())
        asked = F.one_hot(turns, TURNS).to(scores.dtype)
        turn_loss = F.binary_cross_entropy_with_logits(m["turn"](scores), asked)
        return F.cross_entropy(scores, labels.repeat(TURNS)) + self.weight * turn_loss

    def loss_of_copy(self, learner: Any, train: Rule) -> Loss:
        """Generation one's loss against what generation zero left, which stands still."""
        teacher = copy.deepcopy(learner.modules).eval().requires_grad_(False)
        loss = SimpleNamespace(batch_loss=lambda m, x, labels: self.distilled(m, teacher, x))
        copied = SimpleNamespace(
            compute=learner.compute, modules=learner.modules, backbone=learner.backbone, method=loss
        )
        return loss_on_batches(copied, train, self.distil)

    def distilled(self, m: nn.ModuleDict, teacher: nn.ModuleDict, x: Tensor) -> Tensor:
        with torch.no_grad():
            told = teacher["classifier"](teacher["backbone"](x).float())
        scores = m["classifier"](m["backbone"](rotated(x)[0]).float()).unflatten(0, (TURNS, -1))
        t = self.temperature
        apart = F.kl_div(
            torch.log_softmax(scores[0] / t, 1), torch.log_softmax(told / t, 1), reduction="batchmean", log_target=True
        )
        # The length of nothing has no slope: of equal scores none is taken.
        moved = (scores[1:] - scores[0]).square().sum(-1).clamp_min(1e-12).sqrt()
        return t**2 * apart + self.closeness * moved.mean()
