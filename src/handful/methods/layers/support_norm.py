"""Batch norm for methods that adapt to a task: statistics of the task's support, for the queries too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


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
        if x.device.type == "cpu" and not torch._C._functorch.is_functorch_wrapped_tensor(x):
            return _BySupport.apply(x, self.weight, self.bias, self.first, self.eps)
        # Written out, because gradients pass through the statistics too; one product and sum over the images.
        variance, mean = torch.var_mean(x[: self.first], (0, 2, 3), correction=0)
        scale = self.weight * torch.rsqrt(variance + self.eps)
        shift = self.bias - mean * scale
        return torch.addcmul(shift.view(1, -1, 1, 1), x, scale.view(1, -1, 1, 1))


class _BySupport(torch.autograd.Function):
    """The same by the fused kernels of batch norm, whose gradients lack only what passes through the statistics.

    With g the gradient, s = w / √(v + ε) and x̂ = (x - mean) / √(v + ε), each support image gets, for each of the m places that the
    statistics are of, -s (Σg + x̂ Σ g x̂) / m more. Once differentiable: queries come after the inner steps.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, first: int, eps: float) -> Tensor:
        variance, mean = torch.var_mean(x[:first], (0, 2, 3), correction=0)
        ctx.save_for_backward(x, weight, mean, variance)
        ctx.first, ctx.eps = first, eps
        return F.batch_norm(x, mean, variance, weight, bias, training=False, eps=eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, variance = ctx.saved_tensors
        gx, g_weight, g_bias = torch.ops.aten.native_batch_norm_backward(
            g, x, weight, mean, variance, None, None, False, ctx.eps, [True, True, True]
        )
        own, root = gx[: ctx.first], torch.rsqrt(variance + ctx.eps)
        places = own.numel() // len(mean)
        factor = -weight * root / places
        slope = factor * root * g_weight
        shift = factor * g_bias - slope * mean
        own += torch.addcmul(shift.view(1, -1, 1, 1), x[: ctx.first], slope.view(1, -1, 1, 1))
        return gx, g_weight, g_bias, None, None


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
