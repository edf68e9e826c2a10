"""ATA: adversarial task augmentation, on RelationNet, GNN and TPN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.layers.imagetasks import Images, OnImages
from handful.methods.metric.gnn import GNN
from handful.methods.metric.relationnet import RelationNet
from handful.methods.metric.tpn import TPN

KERNELS = (1, 3, 5, 7, 11, 15)


def random_convolution(x: Tensor, generator: torch.Generator) -> Tensor:
    """Images through one random convolution (Xavier weights, a random odd side) that keeps their shape."""
    side = KERNELS[int(torch.randint(len(KERNELS), (1,), generator=generator))]
    channels = x.shape[1]
    spread = (2 / (2 * channels * side * side)) ** 0.5
    weight = spread * torch.randn(channels, channels, side, side, generator=generator)
    return F.conv2d(x, weight.to(x), padding=side // 2)


@dataclass(frozen=True, kw_only=True)
class AdversarialTasks(OnImages):
    """Adversarial task augmentation (Wang & Deng, "Cross-domain few-shot classification via adversarial task augmentation", IJCAI 2021).

    Each training task is first made harder: with probability 1 - ``plain`` its images pass a random convolution, then all its
    pixels take ``ascents`` gradient steps up the task's loss, x ← x + ``ascent_rate`` ∇_x L, with the model in evaluation
    mode. The model is trained on the result.

    Parameters
    ----------
    ascents, ascent_rate, plain
        T = 5, 80 and 0.5 in the public code (the paper searches the rate from 20 up and the probability by method), for
        images of 224 x 224. A pixel's slope of a mean loss grows as there are fewer pixels: for a side of s pixels,
        80 (s / 224)² moves them as far.

    Notes
    -----
    The paper's worst case keeps the task within a distance of the original by a penalty; as in the public code the few steps
    are the only bound.
    """

    ascents: int = 5
    ascent_rate: float = 80.0
    plain: float = 0.5

    def __post_init__(self) -> None:
        if self.ascents < 0 or self.ascent_rate < 0 or not 0 <= self.plain <= 1:
            raise BadInput(f"{self.name} needs ascents and ascent_rate of at least 0 and plain in [0, 1]")
        checked = getattr(super(), "__post_init__", None)
        if checked is not None:
            checked()

    def harder(self, m: nn.ModuleDict, images: Images) -> Tensor:
        """The images after the ascent, detached."""
        x = images.x.detach()
        if float(torch.rand(1, generator=images.generator)) > self.plain:
            x = random_convolution(x, images.generator)
        training = m.training
        m.eval()
        for _ in range(self.ascents):
            x = x.detach().requires_grad_()
            loss = self.task_loss(m, images.batch(self.embed(m, x)), images.labels)
            x = x + self.ascent_rate * torch.autograd.grad(loss, x)[0]
        m.train(training)
        return x.detach()

    def image_loss(self, m: nn.ModuleDict, images: Images) -> Tensor:
        x = self.harder(m, images)
        return self.task_loss(m, images.batch(self.embed(m, x)), images.labels)


@dataclass(frozen=True, kw_only=True)
class RelationNetATA(AdversarialTasks, RelationNet):
    """RelationNet with adversarial task augmentation (Wang & Deng, IJCAI 2021); see `AdversarialTasks` and `RelationNet`."""

    name: ClassVar[str] = "relationnet+ata"


@dataclass(frozen=True, kw_only=True)
class GNNATA(AdversarialTasks, GNN):
    """GNN with adversarial task augmentation (Wang & Deng, IJCAI 2021); see `AdversarialTasks` and `GNN`."""

    name: ClassVar[str] = "gnn+ata"


@dataclass(frozen=True, kw_only=True)
class TPNATA(AdversarialTasks, TPN):
    """TPN with adversarial task augmentation (Wang & Deng, IJCAI 2021); see `AdversarialTasks` and `TPN`."""

    name: ClassVar[str] = "tpn+ata"
