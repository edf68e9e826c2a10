"""Sinkhorn K-means: K-means whose assignment is a transport plan, so that every cluster gets its share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from handful.errors import BadInput
from handful.methods.clustering.sinkhorn import TransportPlan, sinkhorn

LARGEST = 20_000_000  # noise values held at once


@dataclass
class Clusters:
    """Clusterings of T tasks.

    Attributes
    ----------
    centroids
        ``(T, K, D)``; zero where a task has fewer clusters.
    plan
        The final assignment.
    objective, history
        ``(T,)`` the regularised transport cost at the end, ``(T, steps)`` at each outer step before its centroids move.
    shift
        ``(T,)`` how far the centroids moved in the last step (largest distance, noise left out).
    converged
        ``(T,)`` shift within the tolerance (1e-3 of the points' root mean square spread if none is given) and the final
        plan's marginals right.
    """

    centroids: Tensor
    plan: TransportPlan
    objective: Tensor
    history: Tensor
    shift: Tensor
    converged: Tensor


def sinkhorn_kmeans(
    x: Tensor,
    n_clusters: int | Tensor,
    seeds: Sequence[int],
    *,
    gamma: float = 1.0,
    rows: Tensor | None = None,
    columns: Tensor | None = None,
    init: Tensor | None = None,
    steps: int = 20,
    first: int = 20,
    inner: int = 4,
    final: int = 10,
    spread: float = 0.01,
    noise: float = 0.001,
    starts: int = 1,
    tolerance: float | None = None,
    carry_on: float | None = 0.05,
    inner_tolerance: float | None = None,
    hard: bool = False,
) -> Clusters:
    """Cluster the points of many tasks at once (Centroid Networks, Algorithm 2).

    Alternates the transport plan between points and centroids (Algorithm 1) with centroids that are the means of the
    points under the plan.

    Parameters
    ----------
    x
        ``(T, N, D)`` points.
    n_clusters
        Of all tasks, or ``(T,)``.
    seeds
        One per task: its noise depends on nothing else.
    rows
        ``(T, N)`` weights of the points, 0 for padding; uniform by default.
    columns
        ``(T, K)`` sizes of the clusters where they are known; equal by default.
    init
        ``(T, K, D)`` centroids to start from; otherwise ``spread`` times normal noise.
    steps, first, inner, final
        Outer steps; Sinkhorn iterations in the first of them, in each later one (from the duals of the step before), and
        for the final assignment. Defaults as in the public code.
    carry_on
        Algorithm 1 runs "while not converged", the public code a fixed number of iterations. So many are run, and plans whose
        marginals are still off by more than this go on; None for the public code's reading.
    spread, noise
        Of the starting centroids, and of what is added to the centroids after every step.
    starts
        So many starts; the one with the lowest objective is kept, each plan carried on until its marginals are right to
        1e-3 (a plan that is not feasible yet can look cheap).
    tolerance
        A task whose centroids all move less than this times the points' root mean square distance from their mean stops.
    inner_tolerance
        Run the inner loops until the marginals are right to this, at most 10,000 iterations. Then, with ``noise=0``, the
        objective never rises.
    hard
        Unweighted centroids (Appendix B.3): at the end each point goes to its nearest centroid, and centroids become the
        plain means of their points; a centroid that is nearest to none stays.
    """
    _check(x, seeds, steps, starts)
    t, n, d = x.shape
    counts = torch.as_tensor(n_clusters, device=x.device).expand(t)
    k = int(counts.max()) if columns is None else columns.shape[1]
    together = max(1, LARGEST // ((steps + 1) * k * d * starts))
    if t > together:
        some = [slice(i, i + together) for i in range(0, t, together)]

        def cut(value: Tensor | None, s: slice) -> Tensor | None:
            return None if value is None else value[s]

        shared: dict[str, Any] = {
            "gamma": gamma,
            "steps": steps,
            "first": first,
            "inner": inner,
            "final": final,
            "spread": spread,
            "noise": noise,
        }
        shared |= {
            "starts": starts,
            "tolerance": tolerance,
            "inner_tolerance": inner_tolerance,
            "hard": hard,
            "carry_on": carry_on,
        }
        masks = columns if columns is not None else (torch.arange(k, device=x.device) < counts[:, None]).to(x)
        return _join(
            [
                sinkhorn_kmeans(
                    x[s], counts[s], seeds[s], rows=cut(rows, s), columns=masks[s], init=cut(init, s), **shared
                )
                for s in some
            ]
        )
    rows = torch.ones((t, n), device=x.device, dtype=x.dtype) if rows is None else rows.to(x)
    present = torch.arange(k, device=x.device) < counts[:, None]
    columns = present.to(x) if columns is None else columns.to(x) * present
    lots = _noise(seeds, starts, steps, counts, k, d, x)
    if starts > 1:
        x_all, rows_all, columns_all = (_repeat(v, starts) for v in (x, rows, columns))
        init = None if init is None else _repeat(init, starts)
    else:
        x_all, rows_all, columns_all = x, rows, columns

    # Distances are taken from the points' mean: far from the origin, float32 would lose them in the squares.
    share = rows_all / rows_all.sum(1, keepdim=True)
    middle = torch.einsum("tn,tnd->td", share, x_all)[:, None, :]
    z = (x_all - middle) * (rows_all > 0)[..., None]
    scale = (share[..., None] * z.square()).sum((1, 2)).sqrt()
    c = lots[:, 0] * spread - middle if init is None else init.to(x) - middle
    v: Tensor | None = None
    moving = torch.ones(len(z), dtype=torch.bool, device=x.device)
    shift = torch.full((len(z),), float("inf"), device=x.device, dtype=x.dtype)
    history = []
    for step in range(steps):
        cost = squared_distances(z, c)
        plan = sinkhorn(
            cost,
            gamma,
            rows_all,
            columns_all,
            iterations=(first if step == 0 else inner) if inner_tolerance is None else 10_000,
            tolerance=inner_tolerance,
            carry_on=carry_on,
            start=v,
        )
        history.append(plan.objective(cost, gamma))
        mean = weighted_means(z, plan.plan)
        moved = (mean - c).masked_fill((columns_all <= 0)[..., None], 0).norm(dim=-1).amax(1)
        shift = torch.where(moving, moved, shift)
        fresh = mean + noise * lots[:, step + 1] if noise else mean
        c = torch.where(moving[:, None, None], fresh, c)
        v = plan.v if v is None else torch.where(moving[:, None], plan.v, v)
        if tolerance is not None:
            moving = moving & (shift > tolerance * scale)
            if not bool(moving.any()):
                history += [history[-1]] * (steps - step - 1)
                break
    cost = squared_distances(z, c)
    plan = sinkhorn(
        cost,
        gamma,
        rows_all,
        columns_all,
        iterations=final if inner_tolerance is None else 10_000,
        tolerance=inner_tolerance,
        carry_on=carry_on,
        start=v,
    )
    judged = plan
    if starts > 1 and inner_tolerance is None:
        judged = sinkhorn(cost, gamma, rows_all, columns_all, iterations=1000, tolerance=1e-3, start=plan.v)
    objective = judged.objective(cost, gamma)
    if hard:
        c = hard_means(z, c, rows_all, columns_all)
    enough = (1e-3 if tolerance is None else tolerance) * scale
    centroids = (c + middle).masked_fill((columns_all <= 0)[..., None], 0)
    result = Clusters(centroids, plan, objective, torch.stack(history, 1), shift, (shift <= enough) & plan.converged)
    return _best(result, t, starts) if starts > 1 else result


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """``(T, N, K)`` squared Euclidean distances."""
    cross = torch.baddbmm(b.square().sum(-1)[:, None, :], a, b.transpose(1, 2), alpha=-2)
    return (cross + a.square().sum(-1)[..., None]).clamp_min(0)


def weighted_means(x: Tensor, weights: Tensor) -> Tensor:
    """``(T, K, D)`` means of the points under weights ``(T, N, K)``; zero for a cluster without any."""
    total = weights.sum(1)
    return weights.transpose(1, 2) @ x / torch.where(total > 0, total, 1)[..., None]


def hard_means(x: Tensor, centroids: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Plain means of the points nearest to each centroid; a centroid without points stays."""
    far = squared_distances(x, centroids).masked_fill((columns <= 0)[:, None, :], float("inf"))
    hot = torch.nn.functional.one_hot(far.argmin(2), columns.shape[1]).to(x) * rows[..., None]
    return torch.where((hot.sum(1) > 0)[..., None], weighted_means(x, hot), centroids)


def _noise(seeds: Sequence[int], starts: int, steps: int, counts: Tensor, k: int, d: int, like: Tensor) -> Tensor:
    """``(T * starts, steps + 1, K, D)`` normal values; a task's own do not depend on the batch it is in."""
    out = torch.zeros((len(seeds), starts, steps + 1, k, d), dtype=like.dtype)
    for i, (seed, count) in enumerate(zip(seeds, counts.tolist(), strict=True)):
        generator = torch.Generator().manual_seed(int(seed) & (2**63 - 1))
        out[i, :, :, :count] = torch.randn((starts, steps + 1, count, d), generator=generator, dtype=torch.float32)
    return out.flatten(0, 1).to(like.device)


def _check(x: Tensor, seeds: Sequence[int], steps: int, starts: int) -> None:
    if x.ndim != 3 or not x.is_floating_point():
        raise BadInput(f"points must be floats with the axes (task, point, dimension), not {x.dtype} {tuple(x.shape)}")
    if len(seeds) != len(x):
        raise BadInput(f"{len(x)} tasks with {len(seeds)} seeds; give one per task")
    if steps < 1 or starts < 1:
        raise BadInput(f"steps and starts must be at least 1, not {steps} and {starts}")


def _repeat(value: Tensor, starts: int) -> Tensor:
    return value.repeat_interleave(starts, 0)


def _best(result: Clusters, t: int, starts: int) -> Clusters:
    at = result.objective.view(t, starts).argmin(1) + torch.arange(t, device=result.objective.device) * starts
    return _map(lambda v: v[at], [result])


def _join(results: list[Clusters]) -> Clusters:
    return _map(lambda *v: torch.cat(v), results)


def _map(function, results: list[Clusters]) -> Clusters:
    plan = TransportPlan(
        *(function(*(getattr(r.plan, f) for r in results)) for f in TransportPlan.__dataclass_fields__)
    )
    rest = {f: function(*(getattr(r, f) for r in results)) for f in Clusters.__dataclass_fields__ if f != "plan"}
    return Clusters(plan=plan, **rest)
