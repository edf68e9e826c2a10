"""Layer-wise relevance propagation: how much of an output each input accounts for (Bach et al., PLoS ONE 2015)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

EPSILON = 0.01


def stable(z: Tensor, epsilon: float = EPSILON) -> Tensor:
    """z moved away from 0 by ε in its own direction."""
    return z + epsilon * torch.where(z < 0, -1.0, 1.0).to(z)


def through_linear(a: Tensor, weight: Tensor, relevance: Tensor) -> Tensor:
    """ε-rule of ``a @ weight.T``: R_i = a_i Σ_j w_ji R_j / (z_j ± ε); biases take no part."""
    return a * ((relevance / stable(a @ weight.transpose(-1, -2))) @ weight)


def through_mixing(a: Tensor, mix: Tensor, relevance: Tensor) -> Tensor:
    """ε-rule of ``mix @ a``: nodes that average other nodes."""
    return a * (mix.transpose(-1, -2) @ (relevance / stable(mix @ a)))


def through_convolution(a: Tensor, weight: Tensor, relevance: Tensor, padding: int) -> Tensor:
    """α1β0-rule of a convolution: relevance flows back along positive contributions only."""
    up, down = weight.clamp_min(0), weight.clamp_max(0)
    plus, minus = a.clamp_min(0), a.clamp_max(0)
    z = F.conv2d(plus, up, padding=padding) + F.conv2d(minus, down, padding=padding)
    share = relevance / (z + 1e-7 * (z == 0))
    back = lambda w: F.conv_transpose2d(share, w, padding=padding)  # noqa: E731
    return plus * back(up) + minus * back(down)


def through_pooling(a: Tensor, relevance: Tensor, size: int, ceil_mode: bool) -> Tensor:
    """Max-pooling: all of it to the winner."""
    _, at = F.max_pool2d(a, size, ceil_mode=ceil_mode, return_indices=True)
    out = torch.zeros_like(a).flatten(2)
    return out.scatter_add_(2, at.flatten(2), relevance.flatten(2)).view_as(a)


def log_odds(scores: Tensor, beta: float = 4.0) -> Tensor:
    """What is explained: log(β p / (1 - p)) of the softmax over classes, finite at both ends."""
    p = torch.softmax(scores, -1)
    return torch.log(beta * (p + EPSILON) / (1 + EPSILON - p))


def weights(relevance: Tensor, dim: int) -> Tensor:
    """1 + R / max|R|: from 0 (speaks most against) to 2 (speaks most for)."""
    top = relevance.abs().amax(dim, keepdim=True)
    return 1 + relevance / torch.where(top > 0, top, torch.ones_like(top))
