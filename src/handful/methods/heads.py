"""Pieces that heads share: distances, cosine similarities, linear and cosine classifiers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """``(..., n, m)`` squared Euclidean distances of ``(..., n, d)`` and ``(..., m, d)``."""
    cross = a @ b.transpose(-1, -2)
    return (a.square().sum(-1)[..., :, None] + b.square().sum(-1)[..., None, :] - 2 * cross).clamp_min(0)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """``(..., n, m)`` cosine similarities."""
    return F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).transpose(-1, -2)


class CosineClassifier(nn.Module):
    """A linear layer on the unit sphere, its scores times a scale (Gidaris & Komodakis, CVPR 2018)."""

    def __init__(self, width: int, n_classes: int, scale: float = 10.0, learn_scale: bool = False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_classes, width) * 0.01)
        if learn_scale:
            self.scale = nn.Parameter(torch.tensor(float(scale)))
        else:
            self.register_buffer("scale", torch.tensor(float(scale)))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * cosine(x, self.weight)


def fit_linear(
    b: Batch,
    *,
    steps: int,
    rate: float,
    weight_decay: float,
    scale: float | None = None,
    batch: int = 0,
    momentum: float = 0.9,
) -> Tensor:
    """Query logits of a classifier trained by SGD on each task's own support, all tasks at once.

    ``scale`` makes it a cosine classifier. Every task starts from noise of its own seed, sees minibatches of ``batch`` of
    its own support (all of it with 0), and never another task's: the loss is a sum over tasks.

    Notes
    -----
    Momentum with dampening equal to momentum and L2 decay, as Chen et al. 2019 (SGD 0.01, 0.9, 0.9, 0.001, batches of 4,
    100 passes).
    """
    tasks, _, width = b.s.shape
    weight = torch.zeros(tasks, b.C, width, device=b.s.device, dtype=b.s.dtype)
    for t, (seed, n) in enumerate(zip(b.seeds, b.n.tolist(), strict=True)):
        weight[t, :n] = 0.01 * torch.randn(n, width, generator=torch.Generator().manual_seed(int(seed))).to(b.s)
    bias = torch.zeros(tasks, b.C, device=b.s.device, dtype=b.s.dtype)
    known = b.y >= 0
    labels = b.y.clamp_min(0)
    orders = [torch.Generator().manual_seed(int(seed) ^ 0x5EED) for seed in b.seeds]
    speed_w, speed_b = torch.zeros_like(weight), torch.zeros_like(bias)
    s, q = (F.normalize(b.s, dim=-1), F.normalize(b.q, dim=-1)) if scale else (b.s, b.q)
    s = s.detach()

    def scores(x: Tensor, w: Tensor, c: Tensor) -> Tensor:
        if scale:
            return scale * x @ F.normalize(w, dim=-1).transpose(1, 2)
        return x @ w.transpose(1, 2) + c[:, None, :]

    first = True
    for _ in range(steps):
        for pick in _minibatches(known, batch, orders):
            at = pick.clamp_min(0)
            x = torch.gather(s, 1, at[..., None].expand(-1, -1, width))
            y, used = torch.gather(labels, 1, at), pick >= 0
            with torch.enable_grad():
                w, c = weight.detach().requires_grad_(), bias.detach().requires_grad_()
                logits = scores(x, w, c).masked_fill(b.absent[:, None, :], -1e9)
                losses = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(used.shape)
                loss = ((losses * used).sum(1) / used.sum(1).clamp_min(1)).sum()
                grad_w, grad_b = torch.autograd.grad(loss, (w, c), allow_unused=True)
            keep = 0.0 if first else momentum
            active = used.any(1)  # a task whose pass is over waits for the others
            for value, speed, grad in ((weight, speed_w, grad_w), (bias, speed_b, grad_b)):
                if grad is None:
                    continue
                moved = keep * speed + (1 - keep) * (grad + weight_decay * value)
                on = active.view(-1, *([1] * (value.ndim - 1)))
                speed.copy_(torch.where(on, moved, speed))
                value.sub_(torch.where(on, rate * moved, torch.zeros_like(moved)))
            first = False
    return b.close(scores(q, weight, bias))


def _minibatches(known: Tensor, size: int, orders: list[torch.Generator]) -> Iterator[Tensor]:
    """Index batches ``(T, size)`` of one pass over each task's support, -1 where a task has no more."""
    longest = int(known.sum(1).max())
    size = size or longest
    passes = torch.full((len(known), -(-longest // size) * size), -1, dtype=torch.long)
    for t, generator in enumerate(orders):
        own = known[t].nonzero()[:, 0].cpu()
        passes[t, : len(own)] = own[torch.randperm(len(own), generator=generator)]
    passes = passes.to(known.device)
    for start in range(0, passes.shape[1], size):
        yield passes[:, start : start + size]
