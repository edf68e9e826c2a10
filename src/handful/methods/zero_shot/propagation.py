"""Propagation over the class graph: normalised adjacencies, groups of relatives by distance, graph layers."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.data import bfs
from handful.methods.zero_shot.data import ClassGraph

SLOPE = 0.2


def _sparse(rows: Tensor, columns: Tensor, values: Tensor, n: int) -> Tensor:
    return torch.sparse_coo_tensor(torch.stack([rows, columns]), values, (n, n), check_invariants=False).coalesce()


def adjacency(graph: ClassGraph, normalise: str) -> Tensor:
    """The undirected graph with self-loops, ``row``-normalised (D^-1 A) or ``symmetric`` (D^-1/2 A D^-1/2)."""
    n, device = len(graph), graph.nodes.device
    own = torch.arange(n, device=device)
    rows = torch.cat([graph.child, graph.parent, own])
    columns = torch.cat([graph.parent, graph.child, own])
    degree = torch.zeros(n, device=device).index_add_(0, rows, torch.ones(len(rows), device=device))
    values = 1 / degree[rows] if normalise == "row" else (degree[rows] * degree[columns]).rsqrt()
    return _sparse(rows, columns, values, n)


def groups(graph: ClassGraph, direction: str, farthest: int = 4) -> list[Tensor]:
    """Relatives by distance, one row-normalised matrix a group: 0 (oneself), 1, ..., farthest and beyond.

    ``direction`` is ``ancestors`` or ``descendants``; a row without relatives in a group is zero.
    """
    n, device = len(graph), graph.nodes.device
    child, parent = graph.child.cpu().numpy(), graph.parent.cpu().numpy()
    up = bfs.csr(n, child, parent) if direction == "ancestors" else bfs.csr(n, parent, child)
    owner, node, dist = bfs.reach(*up, np.arange(n))
    out = []
    for k in range(farthest + 1):
        if k == 0:
            rows = columns = np.arange(n)
        else:
            pick = dist >= k if k == farthest else dist == k
            rows, columns = owner[pick], node[pick]
        count = np.bincount(rows, minlength=n)
        values = torch.as_tensor(1 / count[rows], dtype=torch.float32, device=device)
        out.append(_sparse(torch.as_tensor(rows, device=device), torch.as_tensor(columns, device=device), values, n))
    return out


class GraphLayer(nn.Module):
    """H' = act(sum_k alpha_k A_k (dropout(H) W + b)); one A with alpha 1 is a plain graph convolution."""

    def __init__(
        self,
        width_in: int,
        width_out: int,
        n_groups: int,
        dropout: float,
        last: bool,
        start: torch.Generator,
        bias: bool = True,
    ):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width_in, width_out))
        self.bias = nn.Parameter(torch.zeros(width_out)) if bias else None
        nn.init.xavier_uniform_(self.weight, generator=start)
        self.attention = nn.Parameter(torch.ones(n_groups)) if n_groups > 1 else None
        self.dropout, self.last = dropout, last

    def forward(self, h: Tensor, adjacencies: list[Tensor], drop: torch.Generator | None = None) -> Tensor:
        if drop is not None and self.dropout > 0:
            kept = torch.rand(h.shape, generator=drop, device=h.device) >= self.dropout
            h = h * kept / (1 - self.dropout)
        # Neighbours are mixed on the narrower side of W; A (H W + b) = (A H) W + (A 1) b.
        rows, narrow = adjacencies[0].shape[0], self.weight.shape[0] <= self.weight.shape[1]
        if narrow or rows < len(h):
            mixed = self._mix(h, adjacencies) @ self.weight
            if self.bias is not None:
                mixed = mixed + self._mix(h.new_ones(len(h), 1), adjacencies) * self.bias
            h = mixed
        else:
            h = self._mix(h @ self.weight if self.bias is None else h @ self.weight + self.bias, adjacencies)
        return h if self.last else F.leaky_relu(h, SLOPE)

    def _mix(self, h: Tensor, adjacencies: list[Tensor]) -> Tensor:
        if self.attention is None:
            return torch.sparse.mm(adjacencies[0], h)
        share = torch.softmax(self.attention, 0)
        return torch.stack([share[k] * torch.sparse.mm(a, h) for k, a in enumerate(adjacencies)]).sum(0)


@dataclass(frozen=True, eq=False)
class ReceptiveField:
    """What some nodes' outputs depend on: the nodes to begin with, and each layer's adjacencies cut down to it."""

    nodes: Tensor
    layers: list[list[Tensor]]


class GraphNet(nn.Module):
    """Layers over one or alternating sets of adjacencies; the output is on the unit sphere.

    ``bias`` gives layers one; ``dropped`` is how many of the last layers drop inputs (all by default).

    With a ``field`` only its nodes come out, and no layer works for a node that they do not hear of. ``drop`` draws the
    dropout of training; without it nothing is dropped.
    """

    def __init__(
        self,
        widths: list[int],
        sets: list[list[Tensor]],
        dropout: float,
        start: torch.Generator,
        *,
        bias: bool = True,
        dropped: int | None = None,
    ):
        super().__init__()
        self.sets = sets
        last = len(widths) - 2
        self.layers = nn.ModuleList(
            GraphLayer(
                a,
                b,
                len(sets[i % len(sets)]),
                dropout if dropped is None or last - i < dropped else 0.0,
                i == last,
                start,
                bias,
            )
            for i, (a, b) in enumerate(itertools.pairwise(widths))
        )

    def forward(self, h: Tensor, field: ReceptiveField | None = None, drop: torch.Generator | None = None) -> Tensor:
        h = h if field is None else h[field.nodes]
        for i, layer in enumerate(self.layers):
            h = layer(h, self.sets[i % len(self.sets)] if field is None else field.layers[i], drop)
        return F.normalize(h, dim=1)

    def field(self, rows: Tensor) -> ReceptiveField:
        """The receptive field of some nodes, from the last layer back to the first."""
        layers: list[list[Tensor]] = []
        for i in reversed(range(len(self.layers))):
            whole = [a.index_select(0, rows).coalesce() for a in self.sets[i % len(self.sets)]]
            heard = torch.unique(torch.cat([a.indices()[1] for a in whole]))
            layers.append([_columns(a, heard) for a in whole])
            rows = heard
        return ReceptiveField(rows, layers[::-1])


def _columns(a: Tensor, kept: Tensor) -> Tensor:
    """A sparse matrix without its other columns, which are all empty."""
    row, column = a.indices()
    places = torch.stack([row, torch.searchsorted(kept, column)])
    return torch.sparse_coo_tensor(places, a.values(), (a.shape[0], len(kept)), check_invariants=False).coalesce()
