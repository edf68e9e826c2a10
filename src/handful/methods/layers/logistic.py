"""Multinomial logistic regression for many tasks at once."""

from __future__ import annotations

import torch
from torch import Tensor

from handful.methods.batch import Batch
from handful.methods.layers.precise import precise


def fit_logistic(
    b: Batch, s: Tensor, q: Tensor, *, strength: float = 1.0, tolerance: float = 1e-7, steps: int = 2000
) -> Tensor:
    """Query logits of each task's own logistic regression on its support, penalised as scikit-learn's is.

    Minimises strength · Σ_i CE(W s_i + c, y_i) + ½ |W|², the intercept c free.

    Parameters
    ----------
    s, q
        Support ``(T, S, d)`` and query ``(T, Q, d)`` features of the batch.

    Notes
    -----
    Böhning's bound (Ann. Inst. Stat. Math. 44, 1992): the Hessian is never above ½ sᵀs ⊗ (I - 11ᵀ/C) plus the penalty's, so
    Newton steps with that fixed matrix always descend, and it is factored once a task. With W = αᵀs the matrix is of
    the support's size, whatever d is. Nesterov momentum, restarted for a task where it points uphill, makes it fast.
    """
    given = s.dtype
    exact = precise(s)
    s, q, hot = s.to(exact), q.to(exact), b.one_hot.to(exact)
    mask = (b.y >= 0).to(exact)
    s = s * mask[..., None]
    gram = s @ s.transpose(1, 2)
    half = 0.5 * strength
    n = s.shape[1]
    top = torch.cat([half * gram + torch.eye(n, dtype=s.dtype, device=s.device), half * mask[..., None]], 2)
    bottom = torch.cat([half * (mask[:, None] @ gram), half * mask.sum(1)[:, None, None]], 2)
    lu, pivots = torch.linalg.lu_factor(torch.cat([top, bottom], 1))
    absent = b.absent[:, None, :]
    now = torch.zeros(s.shape[0], n + 1, b.C, dtype=s.dtype, device=s.device)
    ahead, age = now, torch.ones(s.shape[0], 1, 1, dtype=s.dtype, device=s.device)
    for _ in range(steps):
        alpha, bias = ahead[:, :n], ahead[:, n:]
        scores = (gram @ alpha + bias).masked_fill(absent, float("-inf"))
        wrong = strength * (torch.softmax(scores, -1) - hot) * mask[..., None]
        slope = torch.cat([wrong + alpha, wrong.sum(1, keepdim=True)], 1)
        step = torch.linalg.lu_solve(lu, pivots, slope)
        new = ahead - step
        moved = new - now
        # The slope in α stands for sᵀ(slope); its inner product with a move is taken through the Gram matrix.
        uphill = (slope[:, :n] * (gram @ moved[:, :n])).sum((1, 2)) + (slope[:, n:] * moved[:, n:]).sum((1, 2)) > 0
        age = torch.where(uphill[:, None, None], torch.ones_like(age), age)
        older = (1 + torch.sqrt(1 + 4 * age**2)) / 2
        ahead = new + torch.where(uphill[:, None, None], 0.0, (age - 1) / older) * moved
        now, age = new, older
        if float(step.abs().max()) < tolerance * max(1.0, float(now.abs().max())):
            break
    return (q @ (s.transpose(1, 2) @ now[:, :n]) + now[:, n:]).to(given)
