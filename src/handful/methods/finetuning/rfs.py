"""RFS-simple: pre-trained features, normalised, and a logistic regression for each task."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput, Mismatch
from handful.methods.augment import augment
from handful.methods.batch import Batch
from handful.methods.embedded import EmbeddedLearner, EmbeddedPredictor
from handful.methods.layers.logistic import fit_logistic
from handful.methods.layers.pretrained import Pretrained
from handful.methods.schedule import Schedule
from handful.nets.compute import Compute
from handful.tasks import random
from handful.tasks.episode import Support

KINDS = ("crop", "flip", "jitter")


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
    copies
        Show the regression so many augmented copies (crop, flip, jitter) of each support image in place of the image: five
        in the public code's tables (``n_aug_support_samples``). None by default: the images themselves, which are embedded
        once for all tasks and so are many times as fast.

    Notes
    -----
    With two classes scikit-learn fits one logit with its own penalty; here the two-class problem is the softmax one.
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
    copies: int = field(default=0, metadata={"later": True})

    name: ClassVar[str] = "rfs-simple"
    tunes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.copies < 0:
            raise BadInput(f"{self.name} cannot show {self.copies} copies of an image; give a number from 0 on")

    def untrained(self, shape: tuple[int, ...], n_classes: int = 2, compute: Compute | None = None) -> EmbeddedLearner:
        plain = super().untrained(shape, n_classes, compute)
        if not self.copies:
            return plain
        return CopyingLearner(self, plain.modules, plain.shape, n_classes, plain.compute)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        s, q = F.normalize(b.s, dim=-1), F.normalize(b.q, dim=-1)
        return b.close(fit_logistic(b, s, q, strength=self.strength))


class CopyingLearner(EmbeddedLearner):
    """Learns a task from augmented copies of its support, which are embedded anew for every task."""

    embeds: ClassVar[bool] = False

    method: RFS

    def fit(self, support: Support) -> EmbeddedPredictor:
        if support.images is None or support.labels is None:
            return super().fit(support)
        if support.images.dtype != np.uint8:
            raise Mismatch(f"{self.method.name} can augment images alone; leave copies at 0 on features")
        n = self.method.copies
        generator = torch.Generator().manual_seed(random.subseed(support.seed, "copies"))
        images = augment(torch.from_numpy(np.tile(support.images, (n, 1, 1, 1))), KINDS, generator).numpy()
        return super().fit(dataclasses.replace(support, images=images, labels=np.tile(support.labels, n)))
