"""A batch of tasks in slices, for heads whose inner tensors outgrow the processor's cache (or its memory)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from handful.methods.batch import Batch

BUDGET = 1 << 21


def tasks_of(b: Batch, start: int, stop: int) -> Batch:
    """Some tasks of a batch, still padded as they were."""
    some = slice(start, stop)
    return dataclasses.replace(
        b,
        s=b.s[some],
        y=b.y[some],
        q=b.q[some],
        n=b.n[some],
        seeds=b.seeds[some],
        shapes=b.shapes[some],
        sizes=None if b.sizes is None else b.sizes[some],
        descriptions=None if b.descriptions is None else b.descriptions[some],
        texts=None if b.texts is None else b.texts[some],
        q_mask=None if b.q_mask is None else b.q_mask[some],
    )


def in_slices(head: Callable[[Batch], Tensor], b: Batch, numbers: int) -> Tensor:
    """Logits of a head that makes tensors of so many ``numbers`` a task, a few tasks at a time."""
    step = max(1, BUDGET // max(1, numbers))
    if step >= len(b.s):
        return head(b)
    out = []
    for start in range(0, len(b.s), step):
        logits = head(tasks_of(b, start, start + step))
        out.append(F.pad(logits, (0, b.C - logits.shape[-1]), value=float("-inf")))
    return torch.cat(out)
