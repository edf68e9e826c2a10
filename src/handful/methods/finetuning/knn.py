"""k-NN: the nearest support images vote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.batch import Batch
from handful.methods.heads import squared_distances
from handful.methods.layers.pretrained import Pretrained


@dataclass(frozen=True, kw_only=True)
class KNN(Pretrained):
    """The fine-tuning baseline "k-NN" of Yue et al., NeurIPS 2020: a vote of the k nearest support features.

    Parameters
    ----------
    k
        Voters; the paper gives none, 1 here. Classes with equal votes are told apart by the distance of their nearest voter.
    """

    k: int = 1

    name: ClassVar[str] = "k-nn"

    def __post_init__(self) -> None:
        if self.k < 1:
            raise BadInput(f"k must be at least 1, not {self.k}")

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        apart = squared_distances(b.q, b.s).sqrt().masked_fill((b.y < 0)[:, None, :], float("inf"))
        k = min(self.k, apart.shape[-1])
        near, who = apart.topk(k, -1, largest=False)
        mine = torch.gather(b.y[:, None, :].expand_as(apart), 2, who)[..., None] == torch.arange(b.C, device=b.y.device)
        counted = mine & near.isfinite()[..., None]
        votes = counted.sum(2).to(b.q.dtype)
        nearest = near[..., None].masked_fill(~counted, float("inf")).amin(2)
        return b.close(votes + 1 / (1 + nearest) / 2)
