"""A linear layer trained by Adam on each task's own support, all tasks as one tensor expression."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from handful.methods.batch import Batch


def picks(count: int, steps: int, size: int, seed: int) -> Tensor:
    """``(steps, size)`` rows of a support of ``count``: drawn with replacement, from the task's seed alone."""
    return torch.randint(count, (steps, size), generator=torch.Generator().manual_seed(seed))


def fit_linear_adam(b: Batch, *, steps: int, rate: float, size: int) -> Tensor:
    """Query logits ``(T, Q, C)`` of linear layers trained by Adam with cross-entropy on minibatches of ``size``.

    Every task draws its first weights and its minibatches from its own seed, so that its answer does not depend on the
    tasks beside it.
    """
    tasks, _, width = b.s.shape
    weight = torch.zeros(tasks, b.C, width, device=b.s.device, dtype=b.s.dtype)
    rows = torch.zeros(tasks, steps, size, dtype=torch.long)
    bound = width**-0.5
    for t, (seed, n) in enumerate(zip(b.seeds, b.n.tolist(), strict=True)):
        first = torch.rand(n, width, generator=torch.Generator().manual_seed(int(seed)))
        weight[t, :n] = ((2 * first - 1) * bound).to(b.s)
        labelled = torch.nonzero(b.y[t] >= 0).flatten().cpu()
        rows[t] = labelled[picks(len(labelled), steps, size, int(seed) ^ 0x5EED)]
    rows = rows.to(b.s.device)
    bias = torch.zeros(tasks, b.C, device=b.s.device, dtype=b.s.dtype)
    state = [(value, torch.zeros_like(value), torch.zeros_like(value)) for value in (weight, bias)]
    closed = b.absent[:, None, :]
    for step in range(1, steps + 1):
        at = rows[:, step - 1]
        x = b.s.detach().gather(1, at[..., None].expand(-1, -1, width))
        y = b.y.gather(1, at)
        logits = (x @ state[0][0].transpose(1, 2) + state[1][0][:, None, :]).masked_fill(closed, float("-inf"))
        error = (F.softmax(logits, -1) - F.one_hot(y, b.C).to(x.dtype)) / size
        gradients = (error.transpose(1, 2) @ x, error.sum(1))
        state = [_adam(*values, g, rate, step) for values, g in zip(state, gradients, strict=True)]
    return b.close(b.q @ state[0][0].transpose(1, 2) + state[1][0][:, None, :])


def _adam(
    value: Tensor, mean: Tensor, square: Tensor, gradient: Tensor, rate: float, step: int
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of Adam (Kingma & Ba, 2015) with its published constants."""
    one, two, eps = 0.9, 0.999, 1e-8
    mean = one * mean + (1 - one) * gradient
    square = two * square + (1 - two) * gradient.square()
    change = (mean / (1 - one**step)) / ((square / (1 - two**step)).sqrt() + eps)
    return value - rate * change, mean, square
