"""SimCLR: contrastive pre-training without labels, then prototypes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.heads import cosine, squared_distances
from handful.methods.layers.contrast import nt_xent
from handful.methods.layers.logistic import fit_logistic
from handful.methods.layers.views import random_view
from handful.methods.schedule import Schedule
from handful.methods.stages import Stage


def projector(width: int, out: int) -> nn.Sequential:
    """The two-layer head on which the contrastive loss is taken, and which is thrown away after."""
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out))


@dataclass(frozen=True, kw_only=True)
class SelfSupervised(Embedded):
    """Base of self-supervised pre-training: what is done with the frozen features in a task.

    Parameters
    ----------
    readout
        ``cosine`` or ``euclidean`` prototypes of the backbone's features, or ``logistic`` regression on them at unit length.
    """

    schedule: Schedule = field(default_factory=lambda: Schedule(steps=5000, batch=128))
    readout: Literal["cosine", "euclidean", "logistic"] = "cosine"
    scale: float = 10.0

    @property
    def tunes(self) -> bool:  # type: ignore[override]
        return self.readout == "logistic"

    def stages(self) -> list[Stage]:
        return [Stage("batches", self.schedule, labels=())]

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        if self.readout == "logistic":
            return b.close(fit_logistic(b, F.normalize(b.s, dim=-1), F.normalize(b.q, dim=-1)))
        means = b.prototypes()
        if self.readout == "cosine":
            return b.close(self.scale * cosine(b.q, means))
        return b.close(-squared_distances(b.q, means))


@dataclass(frozen=True, kw_only=True)
class SimCLR(SelfSupervised):
    """SimCLR (Chen, Kornblith, Norouzi, Hinton, "A simple framework for contrastive learning of visual representations", ICML 2020).

    Two random views of every image pass the backbone and a two-layer head; each view must pick its partner out of all
    others of the batch: -log exp(cos(z_i, z_j)/τ) / Σ_{k≠i} exp(cos(z_i, z_k)/τ). Training labels are never used. A task is
    answered from the backbone's frozen features.

    Parameters
    ----------
    temperature
        τ = 0.5, the paper's best without long training on ImageNet (Appendix B).
    out
        128 outputs of the projection head, as published.

    Notes
    -----
    Views are a resized crop (at least ``smallest`` of the area, 0.08 as published), a mirror image, and a change of
    contrast and brightness; the paper's hue, grey and blur are not among them. The paper trains with LARS and batches of 4,096;
    the schedule here is Adam's.
    """

    temperature: float = 0.5
    out: int = 128
    smallest: float = 0.08

    name: ClassVar[str] = "simclr"

    def __post_init__(self) -> None:
        if self.temperature <= 0 or not 0 < self.smallest <= 1:
            raise BadInput(f"{self.name} needs a temperature above 0 and smallest in (0, 1]")

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {"project": projector(backbone.width, self.out)}  # type: ignore[arg-type]

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        both = torch.cat([random_view(x, self.smallest), random_view(x, self.smallest)])
        first, second = m["project"](m["backbone"](both).float()).chunk(2)
        return nt_xent(first, second, self.temperature)
