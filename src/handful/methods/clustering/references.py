"""K-means on pixels, on frozen features and on Prototypical Networks' features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from handful.methods.batch import Batch
from handful.methods.clustering.clusterer import Clusterer
from handful.methods.clustering.kmeans import kmeans
from handful.methods.stages import Stage
from handful.nets.given import Net


@dataclass(frozen=True, kw_only=True)
class KMeans(Clusterer):
    """K-means of the support's pixels, or of a frozen backbone's features; nothing is trained.

    Parameters
    ----------
    init, starts
        One ``plain`` K-means++ start is the paper's row; ``init="greedy"`` and ``starts=10`` are stronger references, and
        much of the paper's gap to K-means goes with them.
    """

    net: Net = "pixels"
    init: Literal["plain", "greedy"] = "plain"
    starts: int = 1

    name: ClassVar[str] = "kmeans"

    def stages(self) -> list[Stage]:
        return []

    def cluster(self, b: Batch) -> tuple[Tensor, Tensor]:
        rows = b.s_mask.to(b.s)
        centroids = kmeans(b.s, b.n, b.seeds, rows=rows, init=self.init, starts=self.starts).centroids
        return centroids, self.logits(b.s, centroids)


@dataclass(frozen=True, kw_only=True)
class ProtoKMeans(KMeans):
    """K-means of the support as Prototypical Networks embed it: trained with their loss, no center loss."""

    net: Net = "conv4"

    name: ClassVar[str] = "protonet-kmeans"

    def stages(self) -> list[Stage]:
        return [Stage("tasks", self.schedule)]
