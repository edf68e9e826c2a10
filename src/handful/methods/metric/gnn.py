"""GNN: few-shot learning with graph neural networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.layers.graph import Edges, MaskedNorm, NeighbourConvolution
from handful.methods.layers.masks import asked


class EdgeNetwork(nn.Module):
    """Two rounds of learned edges and convolution, each keeping what it was given; a last round answers with labels."""

    def __init__(self, width: int, hidden: int, ways: int):
        super().__init__()
        grown = [width, width + hidden // 2, width + hidden // 2 * 2]
        self.edges = nn.ModuleList([Edges(w, hidden) for w in grown])
        self.convolutions = nn.ModuleList([NeighbourConvolution(w, hidden // 2) for w in grown[:2]])
        self.last = NeighbourConvolution(grown[2], ways, norm=False)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        for edges, convolution in zip(self.edges[:2], self.convolutions, strict=True):
            x = torch.cat([x, F.leaky_relu(convolution(x, edges(x, mask), mask))], -1)
        return self.last(x, self.edges[2](x, mask), mask)


@dataclass(frozen=True, kw_only=True)
class GNN(Embedded):
    """Garcia & Bruna, "Few-shot learning with graph neural networks", ICLR 2018.

    A query and the support are the nodes of one graph, each its embedding beside its one-hot label (zeros for the query).
    Three rounds learn edges A_ij = softmax_j MLP(|x_i - x_j|) and pass messages θ [x, A x], growing the node by 48
    features a round; the query's last output is its logits.

    Parameters
    ----------
    ways
        Labels a graph can hold. A task with more ways is asked in groups of so many classes, each group a graph of its own
        support, and the groups' logits are laid side by side (the paper knows one number of ways).
    width, hidden
        The embedding is mapped to 128 before the graph, and messages are 96 / 2 wide, as in Tseng et al. 2020's version.

    Notes
    -----
    Every query has its own graph, so no query sees another. Batch norm uses running statistics at test time; one public
    version uses the batch's own, which would look at all queries together.
    """

    ways: int = 5
    width: int = 128
    hidden: int = 96

    name: ClassVar[str] = "gnn"
    together: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if self.ways < 2 or self.hidden < 2:
            raise BadInput("gnn needs ways and hidden of at least 2")

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {
            "project": nn.Linear(backbone.width, self.width),  # type: ignore[arg-type]
            "norm": MaskedNorm(self.width),
            "graph": EdgeNetwork(self.width + self.ways, self.hidden, self.ways),
        }

    def nodes(self, m: nn.ModuleDict, b: Batch) -> tuple[Tensor, Tensor]:
        """Projected support and query."""
        here = torch.cat([b.s_mask, asked(b)], 1)
        z = m["norm"](m["project"](torch.cat([b.s, b.q], 1)), here)
        return z[:, : b.s.shape[1]], z[:, b.s.shape[1] :]

    def groups(self, b: Batch) -> list[tuple[int, Tensor, Tensor]]:
        """First class, support mask ``(T, S)`` and one-hot labels ``(T, S, ways)`` of each group of classes."""
        out = []
        for first in range(0, b.C, self.ways):
            mine = (b.y >= first) & (b.y < first + self.ways)
            hot = (b.y[..., None] - first == torch.arange(self.ways, device=b.y.device)).to(b.s.dtype)
            out.append((first, mine, hot))
        return out

    def graphs(self, s: Tensor, q: Tensor, q_mask: Tensor, mine: Tensor, hot: Tensor) -> tuple[Tensor, Tensor]:
        """Nodes ``(T·Q, 1 + S, width + ways)``, the query first, and their mask."""
        tasks, n_query = q.shape[:2]
        query = torch.cat([q, q.new_zeros(tasks, n_query, self.ways)], -1)
        support = torch.cat([s, hot], -1)[:, None].expand(-1, n_query, -1, -1)
        nodes = torch.cat([query[:, :, None], support], 2).flatten(0, 1)
        mask = torch.cat([q_mask[..., None], mine[:, None] & q_mask[..., None]], 2)
        return nodes, mask.flatten(0, 1)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        s, q = self.nodes(m, b)
        out = []
        for first, mine, hot in self.groups(b):
            nodes, mask = self.graphs(s, q, asked(b), mine, hot)
            scores = m["graph"](nodes, mask)[:, 0].unflatten(0, q.shape[:2])
            out.append(scores[..., : b.C - first])
        return b.close(torch.cat(out, -1))
