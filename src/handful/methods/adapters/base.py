"""What adapters share: a frozen encoder of images and texts, the classes' text vectors, descent on a task's own support."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.stages import Stage
from handful.nets.given import Net
from handful.nets.texts import class_vectors, prompts_of

Optimiser = Callable[[list[Tensor]], torch.optim.Optimizer]


@dataclass(frozen=True, kw_only=True)
class Adapter(Embedded):
    """Base of the adapters: the encoder stays as it is, a few numbers are learned on each task.

    Parameters
    ----------
    net
        An encoder of images and texts: ``lite2+minilm`` (not CLIP), ``clip:folder=PATH``, ``hf:MODEL``, ``open_clip:NAME/WEIGHTS``.
    prompts
        What the text side reads of a class: ``photo``, ``ensemble``, ``bare``, or a text with ``{}`` for its name.

    Notes
    -----
    ``grid`` names the options that papers choose on labelled images, and the values `handful court` tries.
    """

    net: Net = "lite2+minilm"
    prompts: str = "photo"

    needs: ClassVar[frozenset[str]] = frozenset({"images", "labels", "texts"})
    tunes: ClassVar[bool] = True
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {}

    def __post_init__(self) -> None:
        prompts_of(self.prompts)

    def stages(self) -> list[Stage]:
        return []

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        if not backbone.says:
            backbone.texts([])  # type: ignore[operator]
        return {}

    def words(self, m: nn.ModuleDict, b: Batch, raw: bool = False) -> Tensor:
        """The classes' text vectors ``(T, C, d)``, of length 1 or as the text side gives them (``raw``); zero where there is none."""
        assert b.texts is not None
        out = b.q.new_zeros(len(b.texts), b.C, b.q.shape[-1])
        for i, texts in enumerate(b.texts):
            assert texts is not None
            out[i, : len(texts[0])] = class_vectors(m["backbone"], texts[0], self.prompts, raw).to(out)  # type: ignore[arg-type]
        return out


def sharpness(m: nn.ModuleDict) -> float:
    return float(m["backbone"].sharpness)  # type: ignore[arg-type]


def unit(x: Tensor) -> Tensor:
    return F.normalize(x, dim=-1)


def taught(b: Batch) -> Tensor:
    """Which classes of each task have support ``(T, C)``; the others are known by name alone."""
    return b.one_hot.sum(1) > 0


def support_loss(b: Batch, logits: Tensor) -> Tensor:
    """The sum over tasks of each one's mean cross-entropy on its support, among the classes that have any: gradients of a task are
    its own, and classes known by name alone are no wrong answers."""
    closed = logits.masked_fill(~taught(b)[:, None, :], -1e9)
    known = b.y >= 0
    each = F.cross_entropy(closed.flatten(0, 1), b.y.clamp_min(0).flatten(), reduction="none").view(b.y.shape)
    return ((each * known).sum(1) / known.sum(1).clamp_min(1)).sum()


def descend(
    starts: Sequence[Tensor],
    loss: Callable[..., Tensor],
    optimiser: Optimiser,
    steps: int,
    warm: float | None = None,
    epoch: int = 1,
) -> list[Tensor]:
    """Values after so many steps of an optimiser that works number by number, so that tasks in one tensor stay apart.

    The rate falls by a cosine to zero. ``warm`` is the rate of one epoch before the cosine begins, as in Dassl's trainers.
    The rate stands still for an ``epoch`` of steps.
    """
    values = [v.detach().clone().requires_grad_() for v in starts]
    engine = optimiser(values)
    rate = engine.param_groups[0]["lr"]
    with torch.enable_grad():
        for step in range(steps):
            place = step // epoch - (warm is not None)
            now = 0.5 * rate * (1 + math.cos(math.pi * place * epoch / steps))
            engine.param_groups[0]["lr"] = warm if warm is not None and place < 0 else now
            engine.zero_grad()
            loss(*values).backward()
            engine.step()
    return [v.detach() for v in values]
