"""Softmax regression on features: the classifier behind ConSE, the graph methods' targets and the supervised probes."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from handful.methods.zero_shot.data import Training


def softmax_regression(
    x: Tensor, y: Tensor, n_classes: int, *, decay: float = 1e-4, steps: int = 100, bias: bool = True
) -> tuple[Tensor, Tensor]:
    """Weights ``(n_classes, d)`` and biases that minimise mean cross-entropy + decay / 2 * |W|^2, by L-BFGS from zero."""
    weight = torch.zeros(n_classes, x.shape[1], dtype=x.dtype, device=x.device, requires_grad=True)
    shift = torch.zeros(n_classes, dtype=x.dtype, device=x.device, requires_grad=bias)
    learnt = [weight, shift] if bias else [weight]
    optimiser = torch.optim.LBFGS(learnt, max_iter=steps, history_size=10, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = F.cross_entropy(x @ weight.T + shift, y) + decay / 2 * weight.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    if steps:
        optimiser.step(closure)  # type: ignore[no-untyped-call, arg-type]
    return weight.detach(), shift.detach()


def training_classifier(
    data: Training, sharpness: float, decay: float, steps: int, bias: bool
) -> tuple[Tensor, Tensor]:
    """Softmax regression of the training classes on sharpened features; fitted once for all tries of a grid."""
    key = ("softmax", sharpness, decay, steps, bias)
    if key not in data.memo:
        data.memo[key] = softmax_regression(
            data.x * sharpness, data.y, data.n_classes, decay=decay, steps=steps, bias=bias
        )
    return data.memo[key]
