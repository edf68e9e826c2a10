"""DeepBDC: Brownian distance covariance of a map's channels as the image's representation."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.heads import squared_distances
from handful.methods.layers.logistic import fit_logistic
from handful.methods.layers.masks import asked
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
    """Triangles of support and queries; zeros at padding, which the reduction's batch norm does not see."""
    found = []
    for x, here in ((b.s, b.s_mask), (b.q, asked(b))):
        some = m["bdc"](x[here])
        found.append(some.new_zeros(*here.shape, some.shape[-1]).index_put((here,), some))
    return found[0], found[1]


@dataclass(frozen=True, kw_only=True)
class DeepBDC(Embedded):
    """Meta DeepBDC (Xie, Long, Lv, Wang, Li, "Joint distribution matters: deep Brownian distance covariance for few-shot classification", CVPR 2022).

    The channels of a map are random variables observed at its places; the matrix of their Euclidean distances, doubly
    centred, is the image's Brownian distance covariance matrix A. A class is the mean of its support's matrices, and a
    query is scored by tr(A_queryᵀ A_class) at one shot, by minus the squared distance with more.

    Parameters
    ----------
    reduce
        A learned 1x1 convolution brings the channels down to so many (256 for ResNet-18 in the paper); 0 keeps them.
    score
        ``auto`` as published: the inner product if no class of the task has more than one image, else the distance.

    Notes
    -----
    As in the public code the distances are multiplied by a learned number before the root (started at one over twice the
    number of places), 1e-5 is added under the root, and the upper triangle alone is compared; the paper has neither number.
    """

    reduce: int = 0
    score: Literal["auto", "inner", "distance"] = "auto"

    name: ClassVar[str] = "deepbdc"
    maps: ClassVar[bool] = True
    together: ClassVar[int] = 8

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {"bdc": BDC(backbone.map_shape, self.reduce)}  # type: ignore[arg-type]

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        s, q = triangles(m, b)
        means = b.prototypes(s)
        inner, distance = q @ means.transpose(1, 2), -squared_distances(q, means)
        if self.score != "auto":
            return b.close(inner if self.score == "inner" else distance)
        single = b.one_hot.sum(1).amax(-1) <= 1
        return b.close(torch.where(single[:, None, None], inner, distance))


@dataclass(frozen=True, kw_only=True)
class STLDeepBDC(DeepBDC):
    """STL DeepBDC (Xie et al., CVPR 2022): simple transfer learning with the same matrices.

    Pre-training: a linear classifier over the training classes on the triangle of A. A task: logistic regression on the
    support's triangles, each of unit length.

    Parameters
    ----------
    strength
        Inverse weight of the penalty; 1, scikit-learn's default (the public code searches it by data set).
    """

    schedule: Schedule = field(default_factory=lambda: Schedule(steps=2000, augment=("crop", "flip", "jitter")))
    strength: float = 1.0

    name: ClassVar[str] = "stl-deepbdc"
    tunes: ClassVar[bool] = True

    def stages(self) -> list[Stage]:
        return [Stage("batches", self.schedule)]

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        bdc = BDC(backbone.map_shape, self.reduce)  # type: ignore[arg-type]
        return {"bdc": bdc, "classifier": nn.Linear(bdc.width, n_classes)}

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(m["classifier"](m["bdc"](m["backbone"].maps(x).float())), labels)  # type: ignore[operator]

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        s, q = (F.normalize(x, dim=-1) for x in triangles(m, b))
        return b.close(fit_logistic(b, s, q, strength=self.strength))
