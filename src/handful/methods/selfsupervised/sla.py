"""SLA: self-supervised label augmentation on ProtoNet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.heads import squared_distances
from handful.methods.layers.rotation import TURNS
from handful.methods.layers.turned import Turned


@dataclass(frozen=True, kw_only=True)
class SLA(Embedded):
    """SLA (Lee, Hwang, Shin, "Self-supervised label augmentation via input transformations", ICML 2020) on ProtoNet.

    Class and quarter turn become one joint label: an N-way task is trained as a 4N-way one, in which every turn of a class
    has its own prototype. A query is answered by aggregation: its four turns are each compared with the prototypes of
    that turn, and a class's logit is the mean of the four, s_k = ¼ Σ_j -|f(x_j) - c_kj|².

    Parameters
    ----------
    aggregate
        With False a query is compared in its own turn only (the paper's single inference).
    """

    aggregate: bool = True
    temperature: float = 1.0

    name: ClassVar[str] = "sla"

    def modules(self, shape: tuple[int, ...], n_classes: int) -> nn.ModuleDict:
        m = super().modules(shape, n_classes)
        m["backbone"] = Turned(m["backbone"])
        return m

    def joint(self, b: Batch) -> Tensor:
        """Logits ``(T, Q, 4, 4, C)``: query in a turn (axis 2) against the prototypes of a turn (axis 3)."""
        s, q = b.s.unflatten(-1, (TURNS, -1)), b.q.unflatten(-1, (TURNS, -1))
        means = b.prototypes(s)
        found = -squared_distances(q.flatten(1, 2), means.transpose(1, 2).flatten(1, 2)) / self.temperature
        return found.unflatten(2, (TURNS, b.C)).unflatten(1, (q.shape[1], TURNS))

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        own = self.joint(b).diagonal(0, 2, 3)
        return b.close(own.mean(-1) if self.aggregate else own[..., 0])

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        logits = self.joint(b).masked_fill(b.absent[:, None, None, None], float("-inf")).flatten(3)
        turns = torch.arange(TURNS, device=labels.device) * b.C
        joint = torch.where(labels[..., None] >= 0, labels[..., None] + turns, -2)
        return F.cross_entropy(logits.flatten(0, 2), joint.flatten(), ignore_index=-2)
