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
    """A linear layer on the unit sphere, its scores times a scale (Gidaris & Komodakis, CVPR 2018).

    ``learn_norm`` multiplies each class's cosine by a norm of its own that is learned, as Chen et al.'s public code does.
    Weights start as a linear layer's: a step then turns a class's weight as far at any width.
    """

    def __init__(
        self, width: int, n_classes: int, scale: float = 10.0, learn_scale: bool = False, learn_norm: bool = False
    ):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_classes, width).uniform_(-(width**-0.5), width**-0.5))
        self.norm = nn.Parameter(self.weight.detach().norm(dim=-1)) if learn_norm else None
        if learn_scale:
            self.scale = nn.Parameter(torch.tensor(float(scale)))
        else:
            self.register_buffer("scale", torch.tensor(float(scale)))

    def forward(self, x: Tensor) -> Tensor:
        scores = self.scale * cosine(x, self.weight)
        return scores if self.norm is None else scores * self.norm


def first_weights(b: Batch) -> tuple[Tensor, Tensor]:
    """Where each task's classifier starts: weights and biases uniform in ±1/√width, as a linear layer's."""
    tasks, _, width = b.s.shape
    weight, bias = b.s.new_zeros(tasks, b.C, width), b.s.new_zeros(tasks, b.C)
    for t, (seed, n) in enumerate(zip(b.seeds, b.n.tolist(), strict=True)):
        drawn = torch.rand(n, width + 1, generator=torch.Generator().manual_seed(int(seed))).to(b.s)
        drawn = (2 * drawn - 1) * width**-0.5
        weight[t, :n], bias[t, :n] = drawn[:, :-1], drawn[:, -1]
    return weight, bias


def fit_linear(
    b: Batch,
    *,
    steps: int,
    rate: float,
    weight_decay: float,
    scale: float | None = None,
    learn_norm: bool = False,
    batch: int = 0,
    momentum: float = 0.9,
) -> Tensor:
    """Query logits of a classifier trained by SGD on each task's own support, all tasks at once.

    ``scale`` makes it a cosine classifier, ``learn_norm`` one with a learned norm for each class. Every task starts from
    noise of its own seed, sees minibatches of ``batch`` of its own support (all of it with 0), and never another task's:
    the loss is a sum over tasks.

    Notes
    -----
    Momentum with dampening equal to momentum and L2 decay, as Chen et al. 2019 (SGD 0.01, 0.9, 0.9, 0.001, batches of 4,
    100 passes). Start, steps and both kinds of score are those of wyharveychen/CloserLookFewShot at e03aca8.
    """
    weight, bias = first_weights(b)
    values = [weight, bias] if scale is None else [weight, weight.norm(dim=-1)] if learn_norm else [weight]
    speeds = [torch.zeros_like(value) for value in values]
    known = b.y >= 0
    labels = b.y.clamp_min(0)
    orders = [torch.Generator().manual_seed(int(seed) ^ 0x5EED) for seed in b.seeds]
    s, q = (b.s, b.q) if scale is None else (F.normalize(b.s, dim=-1), F.normalize(b.q, dim=-1))
    s = s.detach()

    def scores(x: Tensor, w: Tensor, *more: Tensor) -> Tensor:
        if scale is None:
            return x @ w.transpose(1, 2) + more[0][:, None, :]
        cosines = scale * x @ F.normalize(w, dim=-1).transpose(1, 2)
        return cosines * more[0][:, None, :] if more else cosines

    first = True
    for _ in range(steps):
        for pick in _minibatches(known, batch, orders):
            at = pick.clamp_min(0)
            x = torch.gather(s, 1, at[..., None].expand(-1, -1, s.shape[-1]))
            y, used = torch.gather(labels, 1, at), pick >= 0
            with torch.enable_grad():
                now = [value.detach().requires_grad_() for value in values]
                logits = scores(x, *now).masked_fill(b.absent[:, None, :], -1e9)
                losses = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(used.shape)
                loss = ((losses * used).sum(1) / used.sum(1).clamp_min(1)).sum()
                gradients = torch.autograd.grad(loss, now)
            keep = 0.0 if first else momentum
            active = used.any(1)  # a task whose pass is over waits for the others
            for value, speed, gradient in zip(values, speeds, gradients, strict=True):
                moved = keep * speed + (1 - keep) * (gradient + weight_decay * value)
                on = active.view(-1, *([1] * (value.ndim - 1)))
                speed.copy_(torch.where(on, moved, speed))
                value.sub_(torch.where(on, rate * moved, torch.zeros_like(moved)))
            first = False
    return b.close(scores(q, *values))


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
