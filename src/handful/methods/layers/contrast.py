"""Contrastive losses: which of the other images is the same one (or of the same class)?"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def info_nce(similar: Tensor, temperature: float) -> Tensor:
    """Mean of -log softmax_j(similar_ij / temperature) at j = i, for ``(n, n)`` similarities of two views of n images."""
    return F.cross_entropy(similar / temperature, torch.arange(len(similar), device=similar.device))


def nt_xent(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """SimCLR's loss (Chen, Kornblith, Norouzi, Hinton, ICML 2020) of two views ``(n, d)``: each of the 2n against all others."""
    z = F.normalize(torch.cat([a, b]), dim=-1)
    n = len(a)
    similar = (z @ z.T / temperature).masked_fill(torch.eye(2 * n, dtype=torch.bool, device=z.device), float("-inf"))
    return F.cross_entropy(similar, torch.arange(2 * n, device=z.device).roll(n))


def supervised(z: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """Supervised contrastive loss (Khosla et al., NeurIPS 2020, L_out): all others of the class are positives.

    Images that are alone in their class are left out.
    """
    z = F.normalize(z, dim=-1)
    own = torch.eye(len(z), dtype=torch.bool, device=z.device)
    logs = torch.log_softmax((z @ z.T / temperature).masked_fill(own, float("-inf")), -1)
    same = (labels[:, None] == labels[None, :]) & ~own
    count = same.sum(1)
    each = -(logs.masked_fill(~same, 0.0)).sum(1) / count.clamp_min(1)
    return each[count > 0].mean() if bool((count > 0).any()) else each.sum() * 0
