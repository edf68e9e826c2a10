"""TPN: transductive propagation network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.heads import squared_distances
from handful.methods.layers.graph import nearest_edges, propagate
from handful.methods.layers.masks import asked
from handful.methods.layers.precise import precise


class LengthScale(nn.Module):
    """σ of an image from its map: two convolution blocks and two linear layers."""

    def __init__(self, shape: tuple[int, int, int], hidden: int = 8):
        super().__init__()
        c = shape[0]
        self.blocks = nn.Sequential(
            nn.Conv2d(c, c, 3, padding=1),
            nn.BatchNorm2d(c),
            nn.ReLU(),
            nn.MaxPool2d(2, padding=1),
            nn.Conv2d(c, 1, 3, padding=1),
            nn.BatchNorm2d(1),
            nn.ReLU(),
            nn.MaxPool2d(2, padding=1),
        )
        sides = [(s // 2 + 1) // 2 + 1 for s in shape[1:]]
        self.layers = nn.Sequential(nn.Linear(sides[0] * sides[1], hidden), nn.ReLU(), nn.Linear(hidden, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(self.blocks(x).flatten(1))


@dataclass(frozen=True, kw_only=True)
class TPN(Embedded):
    """TPN (Liu, Lee, Park, Kim, Yang, Hwang, Yang, "Learning to propagate labels: transductive propagation network", ICLR 2019).

    Support and queries form one graph with weights W_ij = exp(-½ d(f(x_i)/σ_i, f(x_j)/σ_j)), each σ_i learned from the
    image's own map; the k heaviest edges of each node are kept, and the support's labels Y flow along it in closed form:
    F = (I - α S)⁻¹ Y with S = D^-½ W D^-½. Logits are F; the loss is cross-entropy over support and queries.

    Parameters
    ----------
    neighbours, alpha
        k = 20 and α = 0.99 as published.

    Notes
    -----
    Transductive: all queries of a task are answered together. d is the mean over features of squared differences, as in
    the public code (the paper leaves the distance open); a node counts among its own neighbours, as there. The graph and its
    closed form are computed in double precision.
    """

    neighbours: int = 20
    alpha: float = 0.99

    name: ClassVar[str] = "tpn"
    transductive: ClassVar[bool] = True
    maps: ClassVar[bool] = True

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {"scale": LengthScale(backbone.map_shape)}  # type: ignore[arg-type]

    def length_scales(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        """σ of support and queries ``(T, S + Q, 1)``, 1 at padding."""
        x, here = torch.cat([b.s, b.q], 1), torch.cat([b.s_mask, asked(b)], 1)
        if here.all():
            return m["scale"](x.flatten(0, 1)).view(*here.shape, 1)
        sigma = x.new_ones(*here.shape, 1)
        sigma[here] = m["scale"](x[here])
        return sigma

    def propagated(self, b: Batch, sigma: Tensor) -> Tensor:
        """F for support and queries, ``(T, S + Q, C)``, given their length scales."""
        x, here = torch.cat([b.s, b.q], 1), torch.cat([b.s_mask, asked(b)], 1)
        # (I - αS)⁻¹ blows a rounding error up by 1 / (1 - α), and a rounded weight may change who is among the nearest.
        given, exact = x.dtype, precise(x)
        x = x.flatten(2).to(exact) / ((sigma.to(exact) + torch.finfo(given).eps) * (2 * x[0, 0].numel()) ** 0.5)
        weights = torch.exp(-squared_distances(x, x))
        if not here.all():
            weights = weights * (here[:, :, None] & here[:, None, :])
        known = torch.cat([b.one_hot, b.s.new_zeros(*b.q.shape[:2], b.C)], 1).to(exact)
        return propagate(nearest_edges(weights, self.neighbours), known, self.alpha).to(given)

    def labels_of_all(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return self.propagated(b, self.length_scales(m, b))

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return b.close(self.labels_of_all(m, b)[:, b.s.shape[1] :])

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        logits = b.close(self.labels_of_all(m, b))
        every = torch.cat([b.y, labels], 1)
        every = every.masked_fill(every < 0, -2)
        return F.cross_entropy(logits.flatten(0, 1), every.flatten(), ignore_index=-2)
