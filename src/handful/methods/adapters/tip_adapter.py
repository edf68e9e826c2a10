"""Tip-Adapter: the support as a cache of keys and values beside the texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from handful.methods.adapters.base import Adapter, descend, sharpness, support_loss, unit
from handful.methods.batch import Batch


@dataclass(frozen=True, kw_only=True)
class TipAdapter(Adapter):
    """Tip-Adapter (Zhang et al., "Tip-Adapter: training-free adaption of CLIP for few-shot classification", ECCV 2022).

    logit_c = sharpness · cos(x, t_c) + α Σ_{i of class c} exp(-β (1 - cos(x, s_i))).

    Parameters
    ----------
    alpha, beta
        Weight and narrowness of the cache. The public code searches both on validation images; 1 and 5.5 are the paper's defaults.

    Notes
    -----
    Logits are those of gaopengcuhk/Tip-Adapter at d0e2d6f (see docs/methods-zoo.md). There the sharpness is 100.
    """

    alpha: float = 1.0
    beta: float = 5.5

    name: ClassVar[str] = "tip-adapter"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"alpha": (0.3, 1.0, 2.0, 4.0), "beta": (1.0, 3.0, 5.5, 9.0)}

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return b.close(self.logits(m, b, unit(b.q), unit(b.s), self.words(m, b)))

    def logits(self, m: nn.ModuleDict, b: Batch, x: Tensor, keys: Tensor, words: Tensor) -> Tensor:
        near = torch.exp(-self.beta * (1 - x @ keys.transpose(1, 2)))
        return sharpness(m) * x @ words.transpose(1, 2) + self.alpha * near @ b.one_hot


@dataclass(frozen=True, kw_only=True)
class TipAdapterF(TipAdapter):
    """Tip-Adapter-F: the cache's keys are tuned on the support (Zhang et al., ECCV 2022).

    Parameters
    ----------
    steps, rate
        Steps of AdamW over the whole support, the rate falling by a cosine; 20 and 0.001 as published.

    Notes
    -----
    The public code (gaopengcuhk/Tip-Adapter at d0e2d6f) takes batches of 256 crops anew in each of 20 epochs and keeps the epoch that
    is best on the test images; here features stand still and the last step is kept.
    """

    steps: int = 20
    rate: float = 0.001

    name: ClassVar[str] = "tip-adapter-f"
    together: ClassVar[int] = 16

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        words, s = self.words(m, b), unit(b.s)
        (keys,) = descend(
            [s],
            lambda keys: support_loss(b, self.logits(m, b, s, keys, words)),
            lambda values: torch.optim.AdamW(values, lr=self.rate, eps=1e-4),
            self.steps,
        )
        return b.close(self.logits(m, b, unit(b.q), keys, words))
