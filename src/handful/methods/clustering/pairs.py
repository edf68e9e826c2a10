"""Constrained clustering: a network that says whether two images are alike, and the losses that follow its word."""

from __future__ import annotations

import torch
from torch import Tensor, nn

EPS = 1e-7


class PairNet(nn.Module):
    """Logits (unlike, alike) for every ordered pair of embedded images: two layers on the pair's joined vectors.

    Batch norm in between is over all pairs. The first layer of a joined pair is a sum of one term for each image, so
    its mean and variance over all pairs are sums too, and n² pairs cost n products.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.first = nn.Linear(2 * width, hidden)
        self.norm = nn.BatchNorm1d(hidden)
        self.last = nn.Linear(hidden, 2)

    def forward(self, z: Tensor) -> Tensor:
        """``(n, n, 2)`` of ``(n, width)``."""
        a, b = self.terms(z)
        return self.last(torch.relu(a[:, None, :] + b[None, :, :]))

    def terms(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """What the first and the second image of a pair add to the normalised hidden layer."""
        left, right = self.first.weight.chunk(2, dim=1)
        a, b = z @ left.T, z @ right.T + self.first.bias
        if self.training:
            mean = a.mean(0) + b.mean(0)
            variance = a.var(0, unbiased=False) + b.var(0, unbiased=False)
            self._remember(mean.detach(), variance.detach(), len(z) ** 2)
        else:
            mean, variance = self._running()
        scale = self.norm.weight * torch.rsqrt(variance + self.norm.eps)
        return a * scale, (b - mean) * scale + self.norm.bias

    def _remember(self, mean: Tensor, variance: Tensor, n: int) -> None:
        before_mean, before_variance = self._running()
        momentum = self.norm.momentum or 0.1
        before_mean += momentum * (mean - before_mean)
        before_variance += momentum * (variance * n / (n - 1) - before_variance)

    def _running(self) -> tuple[Tensor, Tensor]:
        mean, variance = self.norm.running_mean, self.norm.running_var
        assert mean is not None and variance is not None
        return mean, variance

    def alike(self, z: Tensor, rows: int = 32) -> Tensor:
        """``(n, n)`` whether the first image of each pair is held to be like the second, a few rows at a time."""
        a, b = self.terms(z)
        out = [self.last(torch.relu(some[:, None, :] + b[None, :, :])).argmax(2).bool() for some in a.split(rows)]
        return torch.cat(out)


def kcl(log_p: Tensor, alike: Tensor, margin: float = 2.0) -> Tensor:
    """KLD-based contrastive loss of all pairs (Hsu, Lv, Kira, ICLR 2018, Eq. 1-3).

    Alike pairs pay KL(p_i || p_j), the others max(0, margin - KL(p_i || p_j)), with p_i held constant in turn.

    Parameters
    ----------
    log_p
        ``(n, K)`` log-probabilities of the clusters.
    alike
        ``(n, n)`` bool.
    """
    fixed = log_p.detach()
    p = fixed.exp()
    kl = (p * fixed).sum(1, keepdim=True) - p @ log_p.T
    return torch.where(alike, kl, (margin - kl).clamp_min(0)).mean()


def mcl(log_p: Tensor, alike: Tensor) -> Tensor:
    """Meta classification likelihood of all pairs (Hsu et al., "Multi-class classification without multi-class labels",
    ICLR 2019, Eq. 5): the cross-entropy of s_ij = p_i . p_j."""
    p = log_p.exp()
    same = p @ p.T
    return -torch.where(alike, same, 1 - same).clamp_min(0).add(EPS).log().mean()
