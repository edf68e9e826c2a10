"""Entropic optimal transport in the log domain, for many small problems at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from handful.errors import BadInput

CHECK_EVERY = 10


@dataclass
class TransportPlan:
    """Transport plans of T problems.

    Attributes
    ----------
    log
        ``(T, N, K)`` logarithm of the plan; -inf where a point or a cluster has no weight.
    u, v
        Logarithms of the scaling vectors, ``(T, N)`` and ``(T, K)``; ``v`` starts the next call warm.
    error
        ``(T,)`` sum of the absolute differences between the plan's row sums and the points' weights (its column sums
        are right by construction).
    iterations
        ``(T,)`` iterations each problem took.
    converged
        ``(T,)`` whether the error is within the tolerance; without a tolerance, within 1e-3.
    """

    log: Tensor
    u: Tensor
    v: Tensor
    error: Tensor
    iterations: Tensor
    converged: Tensor

    @property
    def plan(self) -> Tensor:
        return self.log.exp()

    def objective(self, cost: Tensor, gamma: float) -> Tensor:
        """``(T,)`` transport cost less gamma times the entropy: what Sinkhorn's algorithm minimises."""
        p = self.plan
        return torch.where(p > 0, p * (cost + gamma * self.log.clamp_min(-1e30)), 0).sum((1, 2))


def sinkhorn(
    cost: Tensor,
    gamma: float,
    rows: Tensor | None = None,
    columns: Tensor | None = None,
    *,
    iterations: int = 1000,
    tolerance: float | None = None,
    carry_on: float | None = None,
    start: Tensor | None = None,
) -> TransportPlan:
    """Sinkhorn's algorithm (Cuturi, "Sinkhorn distances", NIPS 2013; Algorithm 1 of Centroid Networks).

    Minimises ``sum p * cost - gamma * H(p)`` over plans p with row sums ``rows`` and column sums ``columns``.

    Parameters
    ----------
    cost
        ``(T, N, K)``, float32 or float64.
    rows, columns
        ``(T, N)`` and ``(T, K)`` weights, uniform by default; each is scaled to sum to one. A weight of zero takes the
        point or cluster out of the problem, so problems of different sizes are padded with zeros.
    iterations
        So many at most; exactly so many without a tolerance.
    tolerance
        A problem stops when its row error is below this (looked at every ten iterations). Each stops on its own: a
        problem's plan does not depend on the others in the batch.
    carry_on
        Without a tolerance: problems whose row error is above this after ``iterations`` go on until it is not, at most 300
        further ones, after cooling down from a larger gamma. Where gamma is small beside the costs, plain iterations
        move the duals by about gamma each and would need thousands.
    start
        ``(T, K)`` the ``v`` of an earlier plan.

    Notes
    -----
    The smallest cost of each row is subtracted first, which changes ``u`` alone: exponents stay near zero, and gamma
    can be 1e-3 as well as 1e3 without overflow.
    """
    if not gamma > 0:
        raise BadInput(f"gamma must be above 0, not {gamma}")
    if cost.ndim != 3:
        raise BadInput(f"the cost must have the axes (task, point, cluster), not {tuple(cost.shape)}")
    t, n, k = cost.shape
    log_r, log_c = _log_weights(rows, (t, n), cost), _log_weights(columns, (t, k), cost)
    least = cost.masked_fill(torch.isneginf(log_c)[:, None, :], float("inf")).amin(2, keepdim=True)
    m = (least - cost) / gamma
    v = torch.zeros_like(log_c) if start is None else start.to(m)
    # A cluster without weight must not take any from the first row update; one that had none in an earlier plan starts
    # anew.
    v = torch.where(torch.isneginf(log_c), log_c, torch.where(torch.isfinite(v), v, torch.zeros_like(v)))
    if tolerance is None:
        u, v = _iterate(m, log_r, log_c, v, iterations)
        taken = torch.full((t,), iterations, device=cost.device)
        if carry_on is not None:
            u, v, taken = _further(m, log_r, log_c, u, v, taken, carry_on)
    else:
        u, v, taken = _until(m, log_r, log_c, v, iterations, tolerance)
    # The column update once more, as a softmax: in float32 the sum of large exponents would miss the column sums.
    log = torch.log_softmax(m + u[..., None], 1) + log_c[:, None, :]
    error = (log.exp().sum(2) - log_r.exp()).abs().sum(1)
    u = u + least[..., 0] / gamma
    return TransportPlan(log, u, v, error, taken, error <= (1e-3 if tolerance is None else tolerance))


def _log_weights(weights: Tensor | None, shape: tuple[int, int], like: Tensor) -> Tensor:
    if weights is None:
        weights = torch.ones(shape, device=like.device, dtype=like.dtype)
    weights = weights.to(like)
    if tuple(weights.shape) != shape:
        raise BadInput(f"weights of shape {tuple(weights.shape)} do not fit a cost with {shape}; give one a point")
    if bool((weights < 0).any()) or bool((weights.sum(1) <= 0).any()):
        raise BadInput("weights must not be negative and must not all be zero in any problem")
    return (weights / weights.sum(1, keepdim=True)).log()


def _iterate(m: Tensor, log_r: Tensor, log_c: Tensor, v: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    u = log_r - torch.logsumexp(m + v[:, None, :], 2)
    v = log_c - torch.logsumexp(m + u[..., None], 1)
    for _ in range(iterations - 1):
        u = log_r - torch.logsumexp(m + v[:, None, :], 2)
        v = log_c - torch.logsumexp(m + u[..., None], 1)
    return u, v


def _scaled(m: Tensor, log_r: Tensor, log_c: Tensor, v: Tensor, iterations: int) -> tuple[Tensor, Tensor]:
    """As `_iterate`, but after the first iteration the plan itself is scaled: products instead of logarithms of sums.

    The duals hold all but a few iterations' change (Schmitzer, "Stabilized sparse scaling algorithms", SISC 2019), so that
    scalings stay near one; problems where they leave the numbers' range after all are iterated in the log domain.
    """
    u, start = _iterate(m, log_r, log_c, v, 1)
    plan, r, c = (m + u[..., None] + start[:, None, :]).exp(), log_r.exp()[..., None], log_c.exp()[..., None]
    # Points and clusters without weight are scaled by one.
    no_row, no_column, turned = (r == 0).to(m), (c == 0).to(m), plan.mT.contiguous()
    r, c, a, b = r + no_row, c + no_column, torch.ones_like(r), torch.ones_like(c)
    for _ in range(iterations - 1):
        a = r / torch.baddbmm(no_row, plan, b)
        b = c / torch.baddbmm(no_column, turned, a)
    a, b = a[..., 0], b[..., 0]
    new_u, new_v = u + a.log(), start + b.log()
    lost = ~((a.isfinite() & (a > 0)).all(1) & (b.isfinite() & (b > 0)).all(1))
    if bool(lost.any()):
        at = lost.nonzero()[:, 0]
        new_u, new_v = new_u.clone(), new_v.clone()
        new_u[at], new_v[at] = _iterate(m[at], log_r[at], log_c[at], v[at], iterations)
    return new_u, new_v


def _further(
    m: Tensor, log_r: Tensor, log_c: Tensor, u: Tensor, v: Tensor, taken: Tensor, enough: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Cool the problems down whose marginals are off by more than ``enough``, and iterate them until they are not."""
    off = (_row_error(m, log_r, u, v) > enough).nonzero()[:, 0]
    if not len(off):
        return u, v, taken
    some, r, c = m[off], log_r[off], log_c[off]
    cooled = _cool(some, r, c, v[off])
    better_u, better_v, more = _until(some, r, c, cooled, 300, enough)
    u, v, taken = u.clone(), v.clone(), taken.clone()
    u[off], v[off] = better_u, better_v
    taken[off] += more
    return u, v, taken


def _cool(m: Tensor, log_r: Tensor, log_c: Tensor, v: Tensor, factor: float = 4.0, each: int = 10) -> Tensor:
    """Duals found at a gamma of the costs' own size and carried down to the wanted one in steps (epsilon scaling).

    Each problem has its own ladder, so that it does not depend on the others in the batch.
    """
    real = ~(torch.isneginf(log_r)[..., None] | torch.isneginf(log_c)[:, None, :])
    times = (torch.where(real, -m, 0).amax((1, 2)) / factor).clamp_min(1)
    while bool((hot := times > 1).any()):
        at = hot.nonzero()[:, 0]
        scale = times[at]
        _, warm = _iterate(m[at] / scale[:, None, None], log_r[at], log_c[at], v[at] / scale[:, None], each)
        v = v.clone()
        v[at] = warm * scale[:, None]
        times = (times / factor).clamp_min(1)
    return v


def _row_error(m: Tensor, log_r: Tensor, u: Tensor, v: Tensor) -> Tensor:
    return ((m + u[..., None] + v[:, None, :]).exp().sum(2) - log_r.exp()).abs().sum(1)


def _until(
    m: Tensor, log_r: Tensor, log_c: Tensor, v: Tensor, iterations: int, tolerance: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Iterate each problem until its own error is small; the finished ones leave the batch."""
    out_u, out_v = torch.empty_like(log_r), v.clone()
    taken = torch.zeros(len(m), dtype=torch.long, device=m.device)
    open_ = torch.arange(len(m), device=m.device)
    done = 0
    while done < iterations and len(open_):
        steps = min(CHECK_EVERY, iterations - done)
        u, v = _scaled(m, log_r, log_c, v, steps)
        done += steps
        out_u[open_], out_v[open_], taken[open_] = u, v, done
        going = (_row_error(m, log_r, u, v) > tolerance).nonzero()[:, 0]
        if len(going) < len(open_):
            open_, m, log_r, log_c, v = open_[going], m[going], log_r[going], log_c[going], v[going]
    return out_u, out_v, taken
