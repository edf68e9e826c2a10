"""Graphs over the images of a task: neighbourhoods, label propagation in closed form, and layers that learn the edges."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn


def nearest_edges(weights: Tensor, k: int) -> Tensor:
    """Keep an edge if either end has it among its k heaviest (its own included).

    Edges as heavy as the k-th are all kept, so that the order of equal ones has no say.
    """
    kept = weights >= _kth_largest(weights.detach(), min(k, weights.shape[-1]))
    return torch.where(kept | kept.transpose(-1, -2), weights, 0.0)


def _kth_largest(weights: Tensor, k: int) -> Tensor:
    """The k-th largest of each row; on the processor by numpy, which need not sort."""
    if weights.device.type != "cpu":
        return weights.topk(k, -1).values[..., -1:]
    at = weights.shape[-1] - k
    return torch.from_numpy(np.partition(weights.numpy(), at, -1)[..., at : at + 1].copy())


def propagate(weights: Tensor, labels: Tensor, alpha: float) -> Tensor:
    """Zhou et al.'s label propagation in closed form: (I - α D^-½ W D^-½)⁻¹ Y."""
    root = weights.sum(-1).clamp_min(torch.finfo(weights.dtype).eps).rsqrt()
    system = root[..., :, None] * weights * (-alpha * root)[..., None, :]
    system.diagonal(dim1=-2, dim2=-1).add_(1)
    return torch.linalg.solve(system, labels)


class MaskedNorm(nn.Module):
    """Batch norm over the rows that exist; the others stay as they are."""

    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        if mask.all():
            return self.norm(x.flatten(0, -2)).view_as(x)
        out = x.clone()
        out[mask] = self.norm(x[mask])
        return out


class Edges(nn.Module):
    """Learned adjacency: a softmax, over a node's neighbours, of an MLP of |x_i - x_j|."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        sizes = (width, 2 * hidden, 2 * hidden, hidden, hidden)
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(sizes)])
        self.norms = nn.ModuleList([MaskedNorm(b) for b in sizes[1:]])
        self.last = nn.Linear(hidden, 1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        pairs = mask[:, :, None] & mask[:, None, :]
        h = (x[:, :, None] - x[:, None]).abs()
        for layer, norm in zip(self.layers, self.norms, strict=True):
            h = F.leaky_relu(norm(layer(h), pairs))
        scores = self.last(h)[..., 0]
        itself = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        return torch.softmax(scores.masked_fill(itself | ~mask[:, None, :], -1e8), -1)


class NeighbourConvolution(nn.Module):
    """θ [x, A x]: a linear map of a node and of the average of its neighbours."""

    def __init__(self, c_in: int, c_out: int, norm: bool = True):
        super().__init__()
        self.linear = nn.Linear(2 * c_in, c_out)
        self.norm = MaskedNorm(c_out) if norm else None

    def forward(self, x: Tensor, edges: Tensor, mask: Tensor) -> Tensor:
        out = self.linear(torch.cat([x, edges @ x], -1))
        return out if self.norm is None else self.norm(out, mask)
