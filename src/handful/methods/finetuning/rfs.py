"""RFS-simple: pre-trained features, normalised, and a logistic regression for each task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.layers.logistic import fit_logistic
from handful.methods.layers.pretrained import Pretrained
from handful.methods.schedule import Schedule


@dataclass(frozen=True, kw_only=True)
class RFS(Pretrained):
    """RFS-simple (Tian, Wang, Krishnan, Tenenbaum, Isola, "Rethinking few-shot image classification", ECCV 2020).

    The backbone is trained by cross-entropy over all training classes; a task gets a multinomial logistic regression
    on its support's features of unit length: min_W strength · Σ CE(W f(x) / |f(x)|, y) + ½ |W|².

    Parameters
    ----------
    strength
        scikit-learn's C; 1 as in the public code, whose solver (L-BFGS) has the same minimum.
    schedule
        SGD 0.05 with momentum 0.9 and weight decay 5e-4, cut to a tenth twice, as published; how many steps is ours.

    Notes
    -----
    The public code also shows the regression five augmented copies of each support image; here it sees the images. With
    two classes scikit-learn fits one logit with its own penalty; here the two-class problem is the softmax one.
    """

    schedule: Schedule = field(
        default=Schedule(
            steps=2000,
            batch=64,
            optimiser="sgd",
            rate=0.05,
            weight_decay=5e-4,
            milestones=(0.6, 0.8),
            augment=("crop", "flip", "jitter"),
        )
    )
    strength: float = 1.0

    name: ClassVar[str] = "rfs-simple"
    tunes: ClassVar[bool] = True

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        s, q = F.normalize(b.s, dim=-1), F.normalize(b.q, dim=-1)
        return b.close(fit_logistic(b, s, q, strength=self.strength))
