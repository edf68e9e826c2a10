"""Which places of a padded batch hold something."""

from __future__ import annotations

import torch
from torch import Tensor

from handful.methods.batch import Batch


def asked(b: Batch) -> Tensor:
    """``(T, Q)`` true where there is a query."""
    return b.q_mask if b.q_mask is not None else torch.ones(b.q.shape[:2], dtype=torch.bool, device=b.q.device)
