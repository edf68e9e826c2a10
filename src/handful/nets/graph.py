"""Graph convolution: averaging over neighbours with a row-normalised adjacency, dense or sparse."""

from __future__ import annotations

import torch
from torch import Tensor


def row_normalised(adjacency: Tensor) -> Tensor:
    """D⁻¹A: each row sums to one, so that a constant vector stays what it is; rows without an edge stay zero.

    Dense ``(..., n, n)``, or a sparse COO matrix ``(n, n)``.
    """
    if adjacency.is_sparse:
        adjacency = adjacency.coalesce()
        degree = torch.zeros(adjacency.shape[0], dtype=adjacency.dtype, device=adjacency.device)
        degree.index_add_(0, adjacency.indices()[0], adjacency.values())
        values = adjacency.values() / degree.clamp_min(1e-12)[adjacency.indices()[0]]
        return torch.sparse_coo_tensor(
            adjacency.indices(), values, adjacency.shape, is_coalesced=True, check_invariants=False
        )
    return adjacency / adjacency.sum(-1, keepdim=True).clamp_min(1e-12)


def propagate(adjacency: Tensor, x: Tensor) -> Tensor:
    """Neighbourhood means: ``A @ x`` with A dense (perhaps one per task) or sparse."""
    return torch.sparse.mm(adjacency, x) if adjacency.is_sparse else adjacency @ x


def pair_graph(n1: int, n2: int) -> Tensor:
    """Adjacency of n1 + n2 primitives and all n1 x n2 pairs, with self-loops.

    Both primitives of every pair are joined to each other and to the pair. All pairs are nodes: leaving out those that do
    not exist would tell which are unseen.
    """
    first = torch.arange(n1).repeat_interleave(n2)
    second = n1 + torch.arange(n2).repeat(n1)
    pair = n1 + n2 + torch.arange(n1 * n2)
    a = torch.eye(n1 + n2 + n1 * n2)
    for i, j in ((first, second), (first, pair), (second, pair)):
        a[i, j] = a[j, i] = 1.0
    return a
