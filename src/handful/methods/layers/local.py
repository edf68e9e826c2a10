"""Local descriptors: feature maps as sets of vectors, gathered by class."""

from __future__ import annotations

import torch
from torch import Tensor

from handful.methods.batch import Batch


def descriptors(maps: Tensor) -> Tensor:
    """``(..., c, h, w)`` maps as ``(..., h·w, c)`` vectors, one a place."""
    return maps.flatten(-2).transpose(-1, -2)


def places(b: Batch) -> tuple[Tensor, Tensor]:
    """Where in the support the images of each class are: ``(T, C, K)`` with K the shots of the largest class, and a mask."""
    n = b.y.shape[1]
    counts = (b.y[..., None] == torch.arange(b.C, device=b.y.device)).sum(1)
    most = max(1, int(counts.max()))
    # A stable sort by class puts the members of class c at starts[c] .. starts[c] + counts[c] - 1, in their own order.
    order = torch.argsort(torch.where(b.y >= 0, b.y, b.C), dim=1, stable=True)
    starts = counts.cumsum(1) - counts
    place = torch.arange(most, device=b.y.device)
    at = torch.gather(order, 1, (starts[..., None] + place).clamp_max(n - 1).flatten(1))
    return at.unflatten(1, (b.C, most)), place < counts[..., None]


def by_class(b: Batch, features: Tensor) -> tuple[Tensor, Tensor]:
    """Support features ``(T, S, ...)`` gathered by class, and which of the places are filled.

    Returns
    -------
    tuple
        ``(T, C, K, ...)`` with K the shots of the largest class, zeros where a class has fewer; and a mask (T, C, K).
    """
    at, mask = places(b)
    out = features[torch.arange(len(b.y), device=b.y.device)[:, None, None], at]
    return out * mask.reshape(*mask.shape, *([1] * (features.ndim - 2))).to(out.dtype), mask
