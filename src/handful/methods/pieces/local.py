"""Local descriptors: feature maps as sets of vectors, gathered by class."""

from __future__ import annotations

import torch
from torch import Tensor

from handful.methods.batch import Batch


def descriptors(maps: Tensor) -> Tensor:
    """``(..., c, h, w)`` maps as ``(..., h·w, c)`` vectors, one a place."""
    return maps.flatten(-2).transpose(-1, -2)


def by_class(b: Batch, features: Tensor) -> tuple[Tensor, Tensor]:
    """Support features ``(T, S, ...)`` gathered by class, and which of the places are filled.

    Returns
    -------
    tuple
        ``(T, C, K, ...)`` with K the shots of the largest class, zeros where a class has fewer; and a mask (T, C, K).
    """
    tasks, n = b.y.shape
    hot = b.y[..., None] == torch.arange(b.C, device=b.y.device)
    counts = hot.sum(1)
    most = max(1, int(counts.max()))
    # A stable sort by class puts the members of class c at starts[c] .. starts[c] + counts[c] - 1, in their own order.
    order = torch.argsort(torch.where(b.y >= 0, b.y, b.C), dim=1, stable=True)
    starts = counts.cumsum(1) - counts
    place = torch.arange(most, device=b.y.device)
    mask = place < counts[..., None]
    at = torch.gather(order, 1, (starts[..., None] + place).clamp_max(n - 1).flatten(1))
    rows = torch.arange(tasks, device=b.y.device)[:, None]
    out = features[rows, at].reshape(tasks, b.C, most, *features.shape[2:])
    return out * mask.reshape(*mask.shape, *([1] * (features.ndim - 2))).to(out.dtype), mask
