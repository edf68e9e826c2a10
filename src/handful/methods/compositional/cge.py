"""CGE: compositional graph embedding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from handful.methods.batch import Batch
from handful.methods.compositional.describe import SHOWN, descriptions
from handful.methods.compositional.per_task import Noise, Params, PerTask, cross_entropy, linear
from handful.nets.graph import pair_graph, propagate, row_normalised


@dataclass(frozen=True, eq=False)
class PairGraph:
    """Row-normalised adjacency ``(T, n, n)``, node features ``(T, n, d)`` and where the pairs' nodes are ``(T, C)``."""

    adjacency: Tensor
    nodes: Tensor
    pairs: Tensor

    @classmethod
    def of(cls, b: Batch, first: Tensor, second: Tensor) -> PairGraph:
        n = first.shape[1] + second.shape[1] + b.C
        adjacency = torch.zeros(len(b.n), n, n, device=b.s.device, dtype=b.s.dtype)
        nodes = torch.zeros(len(b.n), n, first.shape[-1], device=b.s.device, dtype=b.s.dtype)
        pairs = torch.zeros(len(b.n), b.C, device=b.s.device, dtype=torch.long)
        for t, (n1, n2) in enumerate(b.shapes):
            m = n1 + n2 + n1 * n2
            both = (first[t, :n1, None] + second[t, None, :n2]) / 2
            nodes[t, :m] = torch.cat([first[t, :n1], second[t, :n2], both.flatten(0, 1)])
            adjacency[t, :m, :m] = pair_graph(n1, n2)
            pairs[t, : n1 * n2] = torch.arange(n1 + n2, m)
        return cls(row_normalised(adjacency), nodes, pairs)


@dataclass(frozen=True, kw_only=True)
class CGE(PerTask):
    """CGE (Naeem, Xian, Tombari, Akata, "Learning graph embeddings for compositional zero-shot learning", CVPR 2021).

    A graph whose nodes are the task's primitives and ALL N x N pairs, primitives joined to each other and to their pairs;
    a graph network of two layers, H' = ReLU(D⁻¹A H W), gives each pair an embedding; a pair's score is its product with
    the embedded image. Cross-entropy over the seen pairs trains the graph network and the image embedding on the support,
    and reaches unseen pairs through the graph.

    Parameters
    ----------
    hidden
        4096 as published.
    dim
        Length of the joint embedding; 0 is the features' width.
    unit
        Pair embeddings have unit length, as the public code's graph network ends (ExplainableML/czsl, 716b074,
        models/gcn.py). Without it pairs that no image has trained keep lengths of their own, which decide the answer.

    Notes
    -----
    Node features are the primitives' descriptions, pairs have the mean of their two. Without shown descriptions they are
    the support's prototypes. The public code makes nodes of listed pairs only, which would say which pairs are unseen.
    """

    hidden: int = 4096
    dim: int = 0
    unit: bool = True

    name: ClassVar[str] = "cge"
    words: ClassVar[bool] = False

    @property
    def weights(self) -> int:
        return self.hidden * (512 + (self.dim or 512)) + 512 * (self.dim or 512)

    def context(self, b: Batch) -> PairGraph:
        return PairGraph.of(b, *descriptions(b, self.words))

    def start(self, b: Batch, c: PairGraph) -> Params:
        noise, params = Noise(b), {}  # type: ignore[var-annotated]
        width, dim = b.s.shape[-1], self.dim or b.s.shape[-1]
        noise.linear("g1", c.nodes.shape[-1], self.hidden, params)
        noise.linear("g2", self.hidden, dim, params)
        noise.linear("image", width, dim, params)
        return params

    def pairs(self, p: Params, c: PairGraph) -> Tensor:
        """Embeddings of all pairs ``(T, C, dim)``."""
        # Rows of A sum to one, so A(XW + b) = (AX)W + b.
        x = torch.relu(linear(p, "g1", propagate(c.adjacency, c.nodes)))
        x = linear(p, "g2", propagate(c.adjacency, x))
        out = torch.gather(x, 1, c.pairs[..., None].expand(-1, -1, x.shape[-1]))
        return F.normalize(out, dim=-1) if self.unit else out

    def losses(self, p: Params, b: Batch, c: PairGraph) -> Tensor:
        seen = b.one_hot.amax(1, keepdim=True) > 0
        logits = linear(p, "image", b.s) @ self.pairs(p, c).transpose(1, 2)
        return cross_entropy(logits.masked_fill(~seen, -1e9), b.y.clamp_min(0), b.y >= 0)

    def scores(self, p: Params, b: Batch, c: PairGraph) -> Tensor:
        return b.close(linear(p, "image", b.q) @ self.pairs(p, c).transpose(1, 2))


@dataclass(frozen=True, kw_only=True)
class CGEWords(CGE):
    """`CGE` with side information: the nodes start from the primitives' word vectors, as published."""

    name: ClassVar[str] = "cge-words"
    needs: ClassVar[frozenset[str]] = SHOWN
    words: ClassVar[bool] = True
