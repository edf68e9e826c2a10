"""DeepBDC: Brownian distance covariance of a map's channels as the image's representation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.batch import Batch
from handful.methods.heads import squared_distances
from handful.methods.layers.logistic import fit_logistic
from handful.methods.layers.masks import asked
from handful.methods.layers.pretrained import Pretrained
from handful.methods.layers.stages import Staged
from handful.methods.schedule import Schedule
from handful.methods.stages import Stage


class BDC(nn.Module):
    """Maps ``(n, c, h, w)`` to the upper triangle of their Brownian distance covariance matrices."""

    def __init__(self, shape: tuple[int, int, int], reduce: int):
        super().__init__()
        c, h, w = shape
        self.reduce = None
        if reduce and reduce != c:
            layer = nn.Conv2d(c, reduce, 1, bias=False)
            nn.init.kaiming_normal_(layer.weight, mode="fan_out")
            self.reduce = nn.Sequential(layer, nn.BatchNorm2d(reduce), nn.ReLU())
        d = reduce or c
        self.width = d * (d + 1) // 2
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / (2 * h * w))))

    def forward(self, x: Tensor) -> Tensor:
        if self.reduce is not None:
            x = self.reduce(x)
        matrix = bdc_matrix(x.flatten(-2), self.log_scale.exp())
        rows, columns = torch.triu_indices(matrix.shape[-1], matrix.shape[-1], device=x.device)
        return matrix[..., rows, columns]


def bdc_matrix(x: Tensor, scale: Tensor | float = 1.0) -> Tensor:
    """Doubly centred Euclidean distances of the rows of ``(..., d, n)``: Â_kl - means of row and column + mean of all."""
    a = (scale * squared_distances(x, x) + 1e-5).sqrt()
    return a - a.mean(-1, keepdim=True) - a.mean(-2, keepdim=True) + a.mean((-1, -2), keepdim=True)


def triangles(m: nn.ModuleDict, b: Batch) -> tuple[Tensor, Tensor]:
    """Triangles of support and queries; zeros at padding.

    In training the reduction's batch norm takes its statistics over support and queries together, and never over padding.
    """
    masks = b.s_mask, asked(b)
    shown, wanted = m["bdc"](torch.cat([b.s[masks[0]], b.q[masks[1]]])).split([int(here.sum()) for here in masks])
    return _placed(shown, masks[0]), _placed(wanted, masks[1])


def _placed(some: Tensor, here: Tensor) -> Tensor:
    return some.new_zeros(*here.shape, some.shape[-1]).index_put((here,), some)


AUGMENT: Any = ("resized-crop", "flip", "jitter")


def by_sgd(steps: int, rate: float) -> Any:
    """The public code's optimiser and augmentation, in both stages."""
    make = partial(Schedule, steps=steps, optimiser="sgd", rate=rate, weight_decay=5e-4, augment=AUGMENT)
    return field(default_factory=make)


@dataclass(frozen=True, kw_only=True)
class Brownian(Pretrained):
    """Pre-training of a network and its Brownian distance covariance with a linear classifier, part of the triangle dropped."""

    schedule: Schedule = by_sgd(2000, 0.05)
    reduce: int = 0
    score: Literal["auto", "inner", "distance"] = "auto"
    dropout: float = 0.5

    maps: ClassVar[bool] = True
    together: ClassVar[int] = 8

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise BadInput(f"{self.name} needs a dropout of at least 0 and below 1, not {self.dropout}")

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        bdc = BDC(backbone.map_shape, self.reduce)  # type: ignore[arg-type]
        classifier = nn.Linear(bdc.width, n_classes)
        nn.init.zeros_(classifier.bias)
        return {"bdc": bdc, "classifier": classifier}

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        triangle = m["bdc"](m["backbone"].maps(x).float())  # type: ignore[operator]
        kept = F.dropout(triangle, self.dropout, training=m["bdc"].training)
        return F.cross_entropy(m["classifier"](kept), labels)


@dataclass(frozen=True, kw_only=True)
class DeepBDC(Brownian, Staged):
    """Meta DeepBDC (Xie, Long, Lv, Wang, Li, "Joint distribution matters: deep Brownian distance covariance for few-shot classification", CVPR 2022).

    The channels of a map are random variables observed at its places; the matrix of their Euclidean distances, doubly
    centred, is the image's Brownian distance covariance matrix A. A class is the mean of its support's matrices, and a
    query is scored by tr(A_queryᵀ A_class) at one shot, by minus the squared distance with more. Network and matrices are
    first pre-trained with a linear classifier over the training classes on the upper triangle of A, then by tasks.

    Parameters
    ----------
    pretrain, schedule
        SGD with Nesterov momentum and decay 0.0005, the first at 0.05 on batches of 64, the second at 0.001, as in the public
        code (0.0001 for its ResNet-12 on miniImageNet). ``pretrain.steps=0`` leaves the first stage out.
    dropout
        Part of the triangle that is dropped before the classifier in pre-training: 0.8 for miniImageNet, 0.6 for CUB.
    reduce
        A learned 1x1 convolution brings the channels down to so many (256 for ResNet-18 in the paper); 0 keeps them.
    score
        ``auto`` as published: the inner product if no class of the task has more than one image, else the distance.

    Notes
    -----
    As in the public code the distances are multiplied by a learned number before the root (started at one over twice the
    number of places), 1e-5 is added under the root, and the upper triangle alone is compared; the paper has neither number.
    That code, Fei-Long121/DeepBDC at adfab39, has a rate of its own for the learned number in pre-training (0.001 on
    miniImageNet); here it is the network's.
    """

    schedule: Schedule = by_sgd(1000, 1e-3)
    pretrain: Schedule = by_sgd(2000, 0.05)
    dropout: float = 0.8

    name: ClassVar[str] = "deepbdc"
    first: ClassVar[tuple[str, ...]] = ("backbone", "bdc", "classifier")
    second: ClassVar[tuple[str, ...]] = ("backbone", "bdc")

    def stages(self) -> list[Stage]:
        return Staged.stages(self)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        s, q = triangles(m, b)
        means = b.prototypes(s)
        inner, distance = q @ means.transpose(1, 2), -squared_distances(q, means)
        if self.score != "auto":
            return b.close(inner if self.score == "inner" else distance)
        single = b.one_hot.sum(1).amax(-1) <= 1
        return b.close(torch.where(single[:, None, None], inner, distance))


@dataclass(frozen=True, kw_only=True)
class STLDeepBDC(Brownian):
    """STL DeepBDC (Xie et al., CVPR 2022): simple transfer learning with the same matrices.

    The pre-training of `DeepBDC` is all the training. A task: logistic regression on the support's triangles, each of unit
    length.

    Parameters
    ----------
    dropout
        In pre-training; 0.5 in the public code.
    strength
        Inverse weight of the penalty; 1, scikit-learn's default (the public code searches it by data set).

    Notes
    -----
    Without the public code's distillation from one generation of the network to the next.
    """

    strength: float = 1.0

    name: ClassVar[str] = "stl-deepbdc"
    tunes: ClassVar[bool] = True

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        s, q = (F.normalize(x, dim=-1) for x in triangles(m, b))
        return b.close(fit_logistic(b, s, q, strength=self.strength))
