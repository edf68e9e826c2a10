"""Functions on tensors (..., channels, height, width)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import torch
import torch.nn.functional as F
from torch import Tensor


class InterpolationMode(Enum):
    """How pixels between pixels are made."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


def normalize(tensor: Tensor, mean: Sequence[float] | float, std: Sequence[float] | float) -> Tensor:
    """(x - mean) / std for each channel."""
    parts = [torch.as_tensor(v, dtype=tensor.dtype, device=tensor.device) for v in (mean, std)]
    centre, spread = (v if v.ndim == 0 else v.view(-1, 1, 1) for v in parts)
    return (tensor - centre) / spread


def hflip(tensor: Tensor) -> Tensor:
    """Left and right change places."""
    return tensor.flip(-1)


def vflip(tensor: Tensor) -> Tensor:
    """Top and bottom change places."""
    return tensor.flip(-2)


def crop(tensor: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """A window of an image."""
    return tensor[..., top : top + height, left : left + width]


def center_crop(tensor: Tensor, size: int | Sequence[int]) -> Tensor:
    """The window in the middle."""
    height, width = (size, size) if isinstance(size, int) else (size[0], size[-1])
    return crop(tensor, (tensor.shape[-2] - height) // 2, (tensor.shape[-1] - width) // 2, height, width)


def resize(
    tensor: Tensor,
    size: int | Sequence[int],
    interpolation: InterpolationMode = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Tensor:
    """To (height, width); a single number is the shorter side."""
    if isinstance(size, int) or len(size) == 1:
        shorter = size if isinstance(size, int) else size[0]
        scale = shorter / min(tensor.shape[-2:])
        size = [int(side * scale) for side in tensor.shape[-2:]]
    batch = tensor if tensor.ndim == 4 else tensor[None]
    smooth = interpolation is not InterpolationMode.NEAREST
    out = F.interpolate(
        batch.float(),
        tuple(size),
        mode=interpolation.value,
        align_corners=False if smooth else None,
        antialias=bool(antialias) and smooth,
    ).to(tensor.dtype)
    return out if tensor.ndim == 4 else out[0]


def pad(tensor: Tensor, padding: int | Sequence[int], fill: float = 0) -> Tensor:
    """A border around the image: one width, or (left, top, right, bottom)."""
    sides = [padding] * 4 if isinstance(padding, int) else list(padding) * (4 // len(padding))
    left, top, right, bottom = sides
    return F.pad(tensor, (left, right, top, bottom), value=fill)
