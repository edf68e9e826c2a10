"""Relation Networks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.embedded import Embedded


@dataclass(frozen=True, kw_only=True)
class RelationNet(Embedded):
    """Relation Networks (Sung, Yang, Zhang, Xiang, Torr, Hospedales, "Learning to compare", CVPR 2018).

    The comparison itself is learned: a small network looks at a class's feature map (the sum of its support's) beside the
    query's and gives a relation score r in [0, 1], trained by (r - [same class])². Logits are log r.

    Parameters
    ----------
    pool
        ``sum`` over a class's support maps as in the paper; ``mean`` does not depend on the number of shots (the common
        re-implementation of Chen et al. 2019).
    loss
        ``mse`` as in the paper; ``softmax`` is cross-entropy over the relations before the sigmoid.
    filters, hidden
        64 filters in each of two convolutional blocks, 8 hidden units, as published.

    Notes
    -----
    The paper's embedding keeps large maps (two poolings); a backbone with small ones is served by pooling that stops at
    one pixel. The first convolution over (class, query) is the sum of one over the class and one over the query, so pairs
    are never stacked.
    """

    pool: Literal["sum", "mean"] = "sum"
    loss: Literal["mse", "softmax"] = "mse"
    filters: int = 64
    hidden: int = 8

    name: ClassVar[str] = "relationnet"
    maps: ClassVar[bool] = True
    together: ClassVar[int] = 8

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {"relation": Relation(backbone.map_shape, self.filters, self.hidden)}  # type: ignore[arg-type]

    def relations(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        """Relations before the sigmoid ``(T, Q, C)``; 0 where a class or query is padding."""
        classes = b.prototypes()
        if self.pool == "sum":
            classes = classes * b.one_hot.sum(1)[:, :, None, None, None]
        tasks, n_query = b.q.shape[:2]
        asked = torch.ones(tasks, n_query, dtype=torch.bool, device=b.q.device) if b.q_mask is None else b.q_mask
        real = (asked[:, :, None] & ~b.absent[:, None, :]).reshape(-1)
        # Padding is left out, not masked: batch norm must not see it.
        at = real.nonzero()[:, 0]
        task, rest = at // (n_query * b.C), at % (n_query * b.C)
        values = m["relation"](
            classes.flatten(0, 1), b.q.flatten(0, 1), task * b.C + rest % b.C, task * n_query + rest // b.C
        )
        out = torch.zeros(real.shape, device=b.q.device, dtype=values.dtype)
        return out.index_put((at,), values).view(tasks, n_query, b.C)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        relations = self.relations(m, b)
        return b.close(F.logsigmoid(relations) if self.loss == "mse" else relations)

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        if self.loss == "softmax":
            return super().task_loss(m, b, labels)
        r = torch.sigmoid(self.relations(m, b))
        same = (labels[..., None] == torch.arange(b.C, device=labels.device)).to(r.dtype)
        real = ((labels >= 0)[..., None] & ~b.absent[:, None, :]).to(r.dtype)
        return ((r - same).square() * real).sum() / real.sum().clamp_min(1)


class Relation(nn.Module):
    """Two convolutional blocks and two linear layers over the concatenation of a class map and a query map."""

    def __init__(self, map_shape: tuple[int, int, int], filters: int, hidden: int):
        super().__init__()
        channels, height, width = map_shape
        self.of_class = nn.Conv2d(channels, filters, 3, padding=1)
        self.of_query = nn.Conv2d(channels, filters, 3, padding=1, bias=False)
        for layer in (self.of_class, self.of_query):  # fan-in of the concatenation
            nn.init.uniform_(layer.weight, -((18 * channels) ** -0.5), (18 * channels) ** -0.5)
        self.first = nn.Sequential(nn.BatchNorm2d(filters), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True))
        self.second = nn.Sequential(
            nn.Conv2d(filters, filters, 3, padding=1),
            nn.BatchNorm2d(filters),
            nn.ReLU(),
            nn.MaxPool2d(2, ceil_mode=True),
        )
        side = math.ceil(math.ceil(height / 2) / 2) * math.ceil(math.ceil(width / 2) / 2)
        self.last = nn.Sequential(nn.Linear(filters * side, hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, classes: Tensor, queries: Tensor, c: Tensor, q: Tensor) -> Tensor:
        """Relation of class c[i] and query q[i], before the sigmoid."""
        x = self.of_class(classes)[c] + self.of_query(queries)[q]
        return self.last(self.second(self.first(x)).flatten(1))[:, 0]
