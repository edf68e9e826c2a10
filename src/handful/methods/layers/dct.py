"""The block-wise discrete cosine transform of images, as JPEG takes it."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 8


def cosines(size: int, like: Tensor) -> Tensor:
    """The orthonormal DCT-II matrix: row k is the k-th cosine over ``size`` points."""
    k, n = torch.arange(size, dtype=torch.float64)[:, None], torch.arange(size, dtype=torch.float64)
    matrix = math.sqrt(2 / size) * torch.cos(math.pi * (2 * n + 1) * k / (2 * size))
    matrix[0] /= math.sqrt(2)
    return matrix.to(like)


def to_frequencies(x: Tensor) -> Tensor:
    """Images ``(n, c, h, w)`` to the coefficients of their 8x8 blocks, each block in the place of its pixels.

    Sides that are no multiple of 8 are continued by their last row or column first, so the result may be larger.
    """
    right, below = -x.shape[-1] % BLOCK, -x.shape[-2] % BLOCK
    if right or below:
        x = F.pad(x, (0, right, 0, below), mode="replicate")
    return _blocks(x, cosines(BLOCK, x))


def to_pixels(coefficients: Tensor, height: int, width: int) -> Tensor:
    """The inverse of `to_frequencies`, cut to the images' size."""
    return _blocks(coefficients, cosines(BLOCK, coefficients).T)[..., :height, :width]


def _blocks(x: Tensor, matrix: Tensor) -> Tensor:
    rows, columns = x.shape[-2] // BLOCK, x.shape[-1] // BLOCK
    cut = x.unflatten(-1, (columns, BLOCK)).unflatten(-3, (rows, BLOCK)).transpose(-3, -2)
    return (matrix @ cut @ matrix.T).transpose(-3, -2).flatten(-4, -3).flatten(-2)


def luminance(x: Tensor) -> Tensor:
    """RGB in 0..1 to luminance and two colour differences (BT.601), as JPEG does; one channel stays as it is."""
    return x if x.shape[1] != 3 else torch.einsum("oi,nihw->nohw", _MIX.to(x), x)


def colours(x: Tensor) -> Tensor:
    """The inverse of `luminance`."""
    return x if x.shape[1] != 3 else torch.einsum("oi,nihw->nohw", torch.linalg.inv(_MIX).to(x), x)


_MIX = torch.tensor(
    [[0.299, 0.587, 0.114], [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]], dtype=torch.float64
)
