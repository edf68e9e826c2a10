"""Matching Networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.heads import cosine
from handful.methods.layers.local import places


@dataclass(frozen=True, kw_only=True)
class MatchingNet(Embedded):
    """Matching Networks (Vinyals et al., "Matching networks for one shot learning", NIPS 2016), without full context embeddings.

    A query attends to every support image by a softmax over cosine similarities; a class's probability is the sum of the
    attention on its images: p(y=k | x) = Σ_{i: y_i=k} softmax_i(scale · cos(f(x), f(x_i))). Logits are its logarithm.

    Parameters
    ----------
    scale
        Multiplies the cosine. The paper writes 1, with which the softmax over similarities in [-1, 1] is nearly flat;
        10 is the common choice (Chen et al. 2019 use 100) and the default here.
    """

    scale: float = 10.0

    name: ClassVar[str] = "matchingnet"

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        scores = (self.scale * cosine(b.q, b.s)).masked_fill((b.y < 0)[:, None, :], float("-inf"))
        attention = torch.log_softmax(scores, -1)
        at, mask = places(b)
        index = at.flatten(1)[:, None].expand(-1, attention.shape[1], -1)
        by_class = torch.gather(attention, 2, index).unflatten(2, mask.shape[1:])
        return b.close(torch.logsumexp(by_class.masked_fill(~mask[:, None], float("-inf")), 3))
