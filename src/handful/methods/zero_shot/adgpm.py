"""ADGPM: dense propagation over ancestors and descendants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from handful.methods.zero_shot.data import ClassGraph
from handful.methods.zero_shot.graph_method import GraphMethod
from handful.methods.zero_shot.propagation import groups


@dataclass(frozen=True, kw_only=True)
class ADGPM(GraphMethod):
    """ADGPM (Kampffmeyer et al., "Rethinking knowledge graph propagation for zero-shot learning", CVPR 2019).

    Dense propagation: every node hears all its descendants in one layer and all its ancestors in the next, grouped by
    distance (0 to 3, and 4 or more), each group row-normalised and weighted by a learnt softmax attention:
    H' = act(sum_k alpha_k D_k^-1 A_k H W). The paper's last step, fine-tuning the features, needs images and is not part
    of a method on given features.

    Parameters
    ----------
    order
        Which relatives come first. The public code (cyvius96/DGP, b497ebb) has edges child -> ancestor and multiplies by
        their normalised transpose first: descendants first, so that what reaches a class are its ancestors, each of which
        has heard all of its descendants.
    farthest
        Distances from here on share a group.
    """

    order: Literal["ancestors first", "descendants first"] = "descendants first"
    farthest: int = 4

    name: ClassVar[str] = "adgpm"

    def sets(self, graph: ClassGraph) -> list[list[Tensor]]:
        both = [groups(graph, d, self.farthest) for d in ("descendants", "ancestors")]
        return both if self.order == "descendants first" else both[::-1]
