"""A padded batch of tasks: what a head computes on, a leading task axis throughout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from handful.tasks.episode import Texts

UNLABELLED, PADDING = -1, -2


@dataclass
class Batch:
    """T tasks padded to one shape.

    Parameters
    ----------
    s, q
        Embedded support ``(T, S, ...)`` and query ``(T, Q, ...)``; padding is zeros.
    y
        ``(T, S)`` labels; UNLABELLED (-1) where labels are not shown, PADDING (-2) where there is no image.
    n
        ``(T,)`` number of classes; ``C`` is the largest.
    shape
        Label axes of each task (pairs), sizes, descriptions and texts when shown, and each task's own seed.
    """

    s: Tensor
    y: Tensor
    q: Tensor
    n: Tensor
    seeds: Sequence[int]
    shapes: Sequence[tuple[int, ...]]
    sizes: Tensor | None = None
    descriptions: Sequence[tuple[np.ndarray, ...] | None] | None = None
    q_mask: Tensor | None = None
    texts: Sequence[Texts | None] | None = None

    @property
    def C(self) -> int:
        return int(self.n.max())

    @property
    def one_hot(self) -> Tensor:
        """``(T, S, C)`` in the features' dtype; rows of padded or unlabelled images are zero."""
        return (self.y[..., None] == torch.arange(self.C, device=self.y.device)).to(self.s.dtype)

    @property
    def absent(self) -> Tensor:
        """``(T, C)`` true where a task has no such class."""
        return torch.arange(self.C, device=self.n.device) >= self.n[:, None]

    @property
    def s_mask(self) -> Tensor:
        """``(T, S)`` true where there is an image."""
        return self.y != PADDING

    def close(self, logits: Tensor) -> Tensor:
        """Logits with -inf at classes that a task does not have."""
        return logits.masked_fill(self.absent[:, None, :], float("-inf"))

    def prototypes(self, features: Tensor | None = None) -> Tensor:
        """Class means ``(T, C, ...)`` of the labelled support."""
        s = self.s if features is None else features
        hot = self.one_hot
        sums = torch.einsum("tsc,ts...->tc...", hot, s)
        counts = hot.sum(1).clamp_min(1)
        return sums / counts.reshape(*counts.shape, *([1] * (s.ndim - 2)))


def pad(
    tasks: Sequence[tuple[Tensor, np.ndarray | None, Tensor]],
    shapes: Sequence[tuple[int, ...]],
    seeds: Sequence[int],
    sizes: Sequence[np.ndarray | None] | None = None,
    descriptions: Sequence[tuple[np.ndarray, ...] | None] | None = None,
    texts: Sequence[Texts | None] | None = None,
) -> Batch:
    """Stack (support features, labels, query features) of several tasks into one batch."""
    first = tasks[0][2]
    device, dtype, tail = first.device, first.dtype, tuple(first.shape[1:])
    shown, asked = [t[0].shape[0] for t in tasks], [t[2].shape[0] for t in tasks]
    n_s, n_q = max(shown), max(asked)
    y = np.full((len(tasks), n_s), PADDING, dtype=np.int64)
    n = [math.prod(shape) for shape in shapes]
    for i, (_, labels, _) in enumerate(tasks):
        y[i, : shown[i]] = UNLABELLED if labels is None else labels
    mask = np.arange(n_q) < np.asarray(asked)[:, None]
    s, q = _stack([t[0] for t in tasks], n_s, tail), _stack([t[2] for t in tasks], n_q, tail)
    stacked = None
    if sizes is not None and all(x is not None for x in sizes):
        stacked = torch.zeros((len(tasks), max(n)), device=device, dtype=dtype)
        for i, x in enumerate(sizes):
            stacked[i, : len(x)] = torch.as_tensor(x, device=device, dtype=dtype)  # type: ignore[arg-type]
    return Batch(
        s,
        torch.as_tensor(y, device=device),
        q,
        torch.as_tensor(n, device=device),
        list(seeds),
        list(shapes),
        stacked,
        descriptions,
        torch.as_tensor(mask, device=device),
        texts,
    )


def _stack(features: list[Tensor], longest: int, tail: tuple[int, ...]) -> Tensor:
    """Features of several tasks below one another, padded with zeros; equal lengths, the common case, are one copy."""
    if all(f.shape[0] == longest for f in features):
        return torch.stack(features)
    out = features[0].new_zeros((len(features), longest, *tail))
    for i, f in enumerate(features):
        out[i, : len(f)] = f
    return out
