"""K-means with K-means++ starts, for many tasks at once: the reference beside Sinkhorn K-means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from handful.errors import BadInput
from handful.methods.clustering.sinkhorn_kmeans import squared_distances, weighted_means


@dataclass
class KMeansClusters:
    """``centroids`` (T, K, D), ``labels`` (T, N), ``inertia`` (T,) and whether Lloyd's steps had come to rest."""

    centroids: Tensor
    labels: Tensor
    inertia: Tensor
    converged: Tensor


def kmeans(
    x: Tensor,
    n_clusters: int | Tensor,
    seeds: Sequence[int],
    *,
    rows: Tensor | None = None,
    init: Literal["plain", "greedy"] = "plain",
    starts: int = 1,
    steps: int = 100,
) -> KMeansClusters:
    """Lloyd's algorithm from K-means++ (Arthur & Vassilvitskii, SODA 2007), the best of ``starts`` by inertia.

    Parameters
    ----------
    x, n_clusters, seeds, rows
        As for :func:`~handful.methods.clustering.sinkhorn_kmeans.sinkhorn_kmeans`.
    init
        ``plain`` draws one candidate a centroid, with probability proportional to its squared distance from the
        centroids so far; ``greedy`` draws 2 + log K and keeps the one that lowers the inertia most (scikit-learn's).
    starts
        The paper's rows are plain with one start; ten are a much stronger reference.

    Notes
    -----
    A centroid that loses all its points stays where it is.
    """
    if x.ndim != 3 or not x.is_floating_point():
        raise BadInput(f"points must be floats with the axes (task, point, dimension), not {x.dtype} {tuple(x.shape)}")
    if len(seeds) != len(x):
        raise BadInput(f"{len(x)} tasks with {len(seeds)} seeds; give one per task")
    if init not in ("plain", "greedy"):
        raise BadInput(f"init must be 'plain' or 'greedy', not {init!r}")
    if starts < 1 or steps < 1:
        raise BadInput(f"starts and steps must be at least 1, not {starts} and {steps}")
    t, n, _ = x.shape
    counts = torch.as_tensor(n_clusters, device=x.device).expand(t)
    weights = torch.ones((t, n), device=x.device, dtype=x.dtype) if rows is None else rows.to(x)
    k = int(counts.max())
    absent = torch.arange(k, device=x.device) >= counts[:, None]
    middle = (weights[..., None] * x).sum(1, keepdim=True) / weights.sum(1)[:, None, None]
    z = (x - middle) * (weights > 0)[..., None]
    generators = [torch.Generator().manual_seed(int(seed) & (2**63 - 1)) for seed in seeds]
    best: KMeansClusters | None = None
    for _ in range(starts):
        one = _lloyd(z, weights, _plusplus(z, weights, counts, k, generators, init), absent, steps)
        if best is None:
            best = one
            continue
        better = one.inertia < best.inertia
        best = KMeansClusters(
            torch.where(better[:, None, None], one.centroids, best.centroids),
            torch.where(better[:, None], one.labels, best.labels),
            torch.where(better, one.inertia, best.inertia),
            torch.where(better, one.converged, best.converged),
        )
    assert best is not None
    best.centroids = (best.centroids + middle).masked_fill(absent[..., None], 0)
    return best


def _plusplus(
    z: Tensor, weights: Tensor, counts: Tensor, k: int, generators: list[torch.Generator], init: str
) -> Tensor:
    """K-means++ centroids. Each task draws as many numbers as its own number of clusters asks for."""
    t, n, d = z.shape
    tries = [1 if init == "plain" else 2 + int(log(int(c))) for c in counts.tolist()]
    most = max(tries)
    lots = torch.ones((t, k, most), dtype=torch.float64)
    for i, (generator, count, each) in enumerate(zip(generators, counts.tolist(), tries, strict=True)):
        lots[i, :count, :each] = torch.rand((count, each), generator=generator, dtype=torch.float64)
        # Fewer tries than another task's: the last is looked at again, which changes nothing.
        lots[i, :count, each:] = lots[i, :count, each - 1 : each]
    lots = lots.to(z.device)
    centroids = torch.zeros((t, k, d), device=z.device, dtype=z.dtype)
    near = torch.ones_like(weights)
    for j in range(k):
        mass = (weights * near).double()
        # All points on centroids already: any will do.
        mass = torch.where(mass.sum(1, keepdim=True) > 0, mass, weights.double())
        ladder = mass.cumsum(1)
        pick = torch.searchsorted(ladder, lots[:, j] * ladder[:, -1:], right=True)
        last = n - 1 - (mass > 0).flip(1).int().argmax(1, keepdim=True)
        pick = torch.minimum(pick, last)
        if j == 0:
            pick = pick[:, :1]
        points = torch.gather(z, 1, pick[..., None].expand(-1, -1, d))
        far = squared_distances(z, points)
        after = far if j == 0 else torch.minimum(far, near[..., None])
        choice = (weights[..., None] * after).sum(1).argmin(1)
        near = torch.gather(after, 2, choice[:, None, None].expand(-1, n, 1))[..., 0]
        centroids[:, j] = torch.gather(points, 1, choice[:, None, None].expand(-1, 1, d))[:, 0]
    return centroids


def _lloyd(z: Tensor, weights: Tensor, centroids: Tensor, absent: Tensor, steps: int) -> KMeansClusters:
    k = absent.shape[1]
    labels: Tensor | None = None
    still = torch.zeros(len(z), dtype=torch.bool, device=z.device)
    for _ in range(steps):
        far = squared_distances(z, centroids).masked_fill(absent[:, None, :], float("inf"))
        fresh = far.argmin(2)
        if labels is not None:
            still = ((fresh == labels) | (weights <= 0)).all(1)
        labels = fresh
        if bool(still.all()):
            break
        hot = F.one_hot(labels, k).to(z) * weights[..., None]
        centroids = torch.where((hot.sum(1) > 0)[..., None], weighted_means(z, hot), centroids)
    far = squared_distances(z, centroids).masked_fill(absent[:, None, :], float("inf"))
    nearest, labels = far.min(2)
    return KMeansClusters(centroids, labels, (weights * nearest).sum(1), still)
