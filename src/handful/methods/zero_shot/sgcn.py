"""SGCN: two graph convolutions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from handful.methods.zero_shot.data import ClassGraph
from handful.methods.zero_shot.graph_method import GraphMethod
from handful.methods.zero_shot.propagation import adjacency


@dataclass(frozen=True, kw_only=True)
class SGCN(GraphMethod):
    """SGCN, or GCN-2 (Kampffmeyer et al., "Rethinking knowledge graph propagation for zero-shot learning", CVPR 2019).

    Two graph convolutions with the row-normalised adjacency D^-1 A (self-loops included), LeakyReLU 0.2 between:
    H' = act(D^-1 A H W). Fewer layers than GCNZ, so that distant nodes are not smoothed into one.
    """

    normalise: Literal["row", "symmetric"] = "row"

    name: ClassVar[str] = "sgcn"

    def sets(self, graph: ClassGraph) -> list[list[Tensor]]:
        return [[adjacency(graph, self.normalise)]]
