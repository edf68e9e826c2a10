"""Tuning a pretrained encoder on each task: linear probe, then all of it (LP-FT) or low-rank changes of its layers (LoRA)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from handful.errors import BadInput, Mismatch
from handful.methods.finetuning.lp_ft_fb import LPFTFB
from handful.methods.stages import Stage
from handful.nets.given import Net


@dataclass(frozen=True, kw_only=True)
class LPFT(LPFTFB):
    """LP-FT (Kumar, Raghunathan, Jones, Ma, Liang, "Fine-tuning can distort pretrained features and underperform
    out-of-distribution", ICLR 2022), on a pretrained encoder.

    A task first trains a linear classifier on frozen features, then the encoder (but for batch norm) and the classifier at a small
    rate; both minimise the cross-entropy on the support. Nothing is trained beforehand.

    Parameters
    ----------
    net
        A pretrained encoder; ``lite2`` by default.
    probe_passes, probe_rate, tune_passes, tune_rate, task_batch
        As for `LPFTFB`, without Firth's penalty.
    """

    net: Net = "lite2"
    probe_firth: float = 0.0
    tune_firth: float = 0.0
    classifier: Literal["cosine", "linear"] = "linear"

    name: ClassVar[str] = "lp-ft"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"tune_rate": (0.0001, 0.001, 0.01)}

    def stages(self) -> list[Stage]:
        return []

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {}


@dataclass(frozen=True, kw_only=True)
class LoRA(LPFT):
    """LoRA (Hu et al., "LoRA: low-rank adaptation of large language models", ICLR 2022), on each task's support.

    After the linear probe every linear layer and every plain convolution of the encoder works with W + (scale / rank) B A, W as it was,
    B starting at zero and A at Kaiming's uniform noise; A, B and the classifier are tuned by AdamW.

    Parameters
    ----------
    rank, scale
        Rank of the change, and what it is multiplied by (times 1 / rank).
    tune_passes, tune_rate
        Passes over the support in batches of ``task_batch``, and AdamW's rate.

    Notes
    -----
    Convolutions in groups and the packed projections of torch's own attention stay as they are.
    """

    rank: int = 4
    scale: float = 8.0
    tune_rate: float = 0.001

    name: ClassVar[str] = "lora"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"rank": (2, 8), "tune_rate": (0.0001, 0.001)}

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise BadInput(f"rank of lora must be at least 1, not {self.rank}")

    def tuner(self, backbone: nn.Module, last: nn.Module, orders: torch.Generator) -> torch.optim.Optimizer:
        backbone.requires_grad_(False)
        layers = [
            m for m in backbone.modules() if isinstance(m, nn.Linear) or (isinstance(m, nn.Conv2d) and m.groups == 1)
        ]
        if not layers:
            raise Mismatch(
                f"lora finds no layer to change in {self.net}; give a net with linear layers or convolutions"
            )
        changes = []
        for layer in layers:
            change = LowRank(layer.weight, self.rank, self.scale, orders)
            parametrize.register_parametrization(layer, "weight", change)
            changes += list(change.parameters())
        return torch.optim.AdamW([*changes, *last.parameters()], self.tune_rate)


class LowRank(nn.Module):
    """A weight plus a change of low rank that starts at zero."""

    def __init__(self, weight: Tensor, rank: int, scale: float, generator: torch.Generator):
        super().__init__()
        high, wide = weight.shape[0], weight[0].numel()
        bound = wide**-0.5
        self.a = nn.Parameter(((2 * torch.rand(rank, wide, generator=generator) - 1) * bound).to(weight))
        self.b = nn.Parameter(weight.new_zeros(high, rank))
        self.scale = scale / rank

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.scale * (self.b @ self.a).reshape(weight.shape)
