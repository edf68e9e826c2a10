"""Batch norm for methods that adapt to a task: statistics of the task's support, for the queries too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SupportNorm(nn.Module):
    """Normalises a batch by the mean and variance of its first ``first`` images (of all of them while it is None).

    With the support first in the batch, queries are normalised by the support alone, so none of them sees another, and the
    statistics stay a function of the weights that gradients pass through. Nothing is remembered between batches.
    """

    def __init__(self, like: nn.BatchNorm2d):
        super().__init__()
        self.weight, self.bias, self.eps = like.weight, like.bias, like.eps
        self.first: int | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.first is None:
            return F.batch_norm(x, None, None, self.weight, self.bias, training=True, eps=self.eps)
        variance, mean = torch.var_mean(x[: self.first], (0, 2, 3), correction=0)
        if not torch.is_grad_enabled():
            return F.batch_norm(x, mean, variance, self.weight, self.bias, training=False, eps=self.eps)
        # Written out, because gradients pass through the statistics too; one product and sum over the images.
        scale = self.weight * torch.rsqrt(variance + self.eps)
        shift = self.bias - mean * scale
        return torch.addcmul(shift.view(1, -1, 1, 1), x, scale.view(1, -1, 1, 1))


def use_support_norm(module: nn.Module) -> None:
    """Put a SupportNorm in the place of every BatchNorm2d below ``module``; running statistics are dropped."""
    for name, child in list(module.named_children()):
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, SupportNorm(child))
        else:
            use_support_norm(child)


@contextmanager
def known_first(module: nn.Module, n: int | None) -> Iterator[None]:
    """Within the block the first n images of a batch are the support."""
    norms = [layer for layer in module.modules() if isinstance(layer, SupportNorm)]
    before = [layer.first for layer in norms]
    for layer in norms:
        layer.first = n
    try:
        yield
    finally:
        for layer, old in zip(norms, before, strict=True):
            layer.first = old
