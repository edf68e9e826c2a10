"""Class descriptions of pair tasks as tensors: word vectors when a task shows them, else the support's prototypes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from handful.errors import Mismatch
from handful.methods.batch import Batch
from handful.methods.compositional.lifted import axes_of

SHOWN = frozenset({"images", "labels", "descriptions"})


def described(b: Batch, width: int) -> Tensor:
    """Shown descriptions of a one-axis batch ``(T, C, width)``, zero where a task has no such class."""
    out = np.zeros((len(b.n), b.C, width), dtype=np.float32)
    for i in range(len(b.n)):
        own = b.descriptions[i] if b.descriptions is not None else None
        if own is None:
            raise Mismatch(
                "this method needs descriptions, which the task does not show; give the rule pairs words=FILE"
            )
        if own[0].shape[1] != width:
            raise Mismatch(
                f"the task's descriptions have {own[0].shape[1]} numbers, the method learned from {width}; use the same vectors"
            )
        out[i, : len(own[0])] = own[0]
    return torch.as_tensor(out, device=b.s.device, dtype=b.s.dtype)


def descriptions(b: Batch, words: bool) -> tuple[Tensor, Tensor]:
    """Descriptions of each axis ``(T, N, d)``."""
    first, second = axes_of(b)
    if not words:
        return first.prototypes(), second.prototypes()
    shown = b.descriptions[0] if b.descriptions is not None else None
    width = 0 if shown is None else shown[0].shape[1]
    return described(first, width), described(second, width)
