"""Double precision where rounding would be blown up."""

from __future__ import annotations

import torch
from torch import Tensor


def precise(like: Tensor) -> torch.dtype:
    """float64, save on devices that lack it (MPS), where it is the tensor's own."""
    return like.dtype if like.device.type == "mps" else torch.float64
