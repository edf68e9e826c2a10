"""Rotations by quarter turns and their labels: the pretext task of several methods."""

from __future__ import annotations

import torch
from torch import Tensor

from handful.errors import Mismatch

TURNS = 4


def rotated(x: Tensor) -> tuple[Tensor, Tensor]:
    """All four quarter turns of square images ``(n, c, h, w)``, turn by turn, and the turn (0..3) of each of the 4n."""
    if x.shape[-1] != x.shape[-2]:
        raise Mismatch(f"rotations need square images, not {tuple(x.shape[-2:])}; pack the collection with square ones")
    turns = torch.arange(TURNS, device=x.device).repeat_interleave(len(x))
    return torch.cat([torch.rot90(x, k, (2, 3)) for k in range(TURNS)]), turns
