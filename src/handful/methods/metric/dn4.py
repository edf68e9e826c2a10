"""DN4: deep nearest neighbour neural network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.layers.local import by_class, descriptors
from handful.methods.layers.slices import in_slices


@dataclass(frozen=True, kw_only=True)
class DN4(Embedded):
    """DN4 (Li, Wang, Xu, Huo, Gao, Luo, "Revisiting local descriptor based image-to-class measure for few-shot learning", CVPR 2019).

    Every place of a query's map looks for its nearest local descriptors among all places of all support images of a class;
    the class's logit is the sum of those similarities: Σ_i Σ_{k ≤ neighbours} cos(x_i, x_i^k). Nothing is learned but the
    embedding.

    Parameters
    ----------
    neighbours
        k = 3 as published for miniImageNet (1 for its fine-grained sets). A class that has fewer descriptors gives all it has.

    Notes
    -----
    With one neighbour, one place and one shot this is cosine 1-NN.
    """

    neighbours: int = 3

    name: ClassVar[str] = "dn4"
    maps: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.neighbours < 1:
            raise BadInput(f"dn4 needs at least one neighbour, not {self.neighbours}")

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        places = b.q.shape[-1] * b.q.shape[-2]
        return in_slices(self.image_to_class, b, b.q.shape[1] * b.s.shape[1] * places**2)

    def image_to_class(self, b: Batch) -> Tensor:
        """Sums over places of the nearest descriptors' similarities."""
        shown, mask = by_class(b, b.s)
        pool = F.normalize(descriptors(shown), dim=-1).flatten(2, 3)
        query = F.normalize(descriptors(b.q), dim=-1)
        tasks, n_query, places, width = query.shape
        near = query.reshape(tasks, 1, n_query * places, width) @ pool.transpose(-1, -2)
        k = min(self.neighbours, near.shape[-1])
        if bool(mask.all()):
            best = near.topk(k, -1, sorted=False).values
        else:
            own = mask.repeat_interleave(places, -1)[:, :, None, :]
            best = near.masked_fill(~own, float("-inf")).topk(k, -1, sorted=False).values
            best = best.masked_fill(best == float("-inf"), 0.0)
        return b.close(best.sum(-1).reshape(tasks, -1, n_query, places).sum(-1).transpose(1, 2))
