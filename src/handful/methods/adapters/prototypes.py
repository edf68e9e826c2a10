"""TaskRes and CLAP: the classes' text vectors, moved by the support."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from handful.methods.adapters.base import Adapter, descend, sharpness, support_loss, taught, unit
from handful.methods.batch import Batch


@dataclass(frozen=True, kw_only=True)
class TaskRes(Adapter):
    """TaskRes (Yu et al., "Task residual for tuning vision-language models", CVPR 2023).

    The text vector of a class becomes t_c + α r_c, r_c learned from zero; logits are sharpness · cos(x, t_c + α r_c), with t_c as long
    as the text side makes it.

    Parameters
    ----------
    alpha
        Scale of the residual; 0.5 as published (1 for Flowers102).
    steps, rate
        Steps of Adam over the whole support, the first at 1e-5, then falling by a cosine; 100 and 0.002 as published for up to
        four shots (200 above, and 0.0002 on ImageNet).

    Notes
    -----
    Logits and learned residuals are those of geekyutao/TaskRes at 5195359 on features that stand still.
    """

    alpha: float = 0.5
    steps: int = 100
    rate: float = 0.002

    name: ClassVar[str] = "taskres"
    together: ClassVar[int] = 32
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"alpha": (0.1, 0.5, 1.0), "rate": (0.0002, 0.002, 0.02)}

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        words, s = self.words(m, b, raw=True), unit(b.s)

        def logits(x: Tensor, residual: Tensor) -> Tensor:
            return sharpness(m) * x @ unit(words + self.alpha * residual).transpose(1, 2)

        (residual,) = descend(
            [torch.zeros_like(words)],
            lambda r: support_loss(b, logits(s, r)),
            lambda values: torch.optim.Adam(values, lr=self.rate, weight_decay=5e-4),
            self.steps,
            warm=1e-5,
        )
        return b.close(logits(unit(b.q), residual))


@dataclass(frozen=True, kw_only=True)
class CLAP(Adapter):
    """CLAP (Silva-Rodriguez et al., "A closer look at the few-shot adaptation of large vision-language models", CVPR 2024).

    A linear probe of cosines that starts at the text vectors t_c and is held there: the loss is the cross-entropy plus the mean
    over classes of λ_c |w_c - t_c|², where λ_c is the mean probability that the texts alone give class c on its own support images.
    There is nothing to choose on validation images, which is its point.

    Parameters
    ----------
    steps, rate
        Steps of SGD with momentum 0.9 over the whole support, the first at 1e-5, then falling by a cosine; 300 and 0.1 as published.

    Notes
    -----
    Weights and logits are those of jusiro/CLAP at dbdf409 (initialisation ZS, constraint l2) on features that stand still; its
    twenty epochs of augmented crops are left out.
    """

    steps: int = 300
    rate: float = 0.1

    name: ClassVar[str] = "clap"
    together: ClassVar[int] = 32
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"rate": (0.01, 0.1, 1.0)}

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        words, s = self.words(m, b, raw=True), unit(b.s)

        def logits(x: Tensor, weights: Tensor) -> Tensor:
            return sharpness(m) * x @ unit(weights).transpose(1, 2)

        known = taught(b)
        alone = torch.softmax(logits(s, words).masked_fill(~known[:, None, :], float("-inf")), -1)
        held = (alone * b.one_hot).sum(1) / b.one_hot.sum(1).clamp_min(1)  # (T, C)

        def loss(weights: Tensor) -> Tensor:
            moved = (weights - words).square().sum(-1)
            return support_loss(b, logits(s, weights)) + ((held * moved).sum(1) / known.sum(1)).sum()

        (weights,) = descend(
            [words], loss, lambda values: torch.optim.SGD(values, lr=self.rate, momentum=0.9), self.steps, warm=1e-5
        )
        return b.close(logits(unit(b.q), weights))
