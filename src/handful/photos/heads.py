"""The two heads for fifty photos, each with its scores of every photo left out: prototypes and logistic regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

EXACT = 200
FOLDS = 10


@dataclass(frozen=True)
class Fitted:
    """A head's own tensors and the scores ``(n, C)`` of each photo by the head that has not seen it."""

    name: str
    tensors: dict[str, np.ndarray]
    left_out: np.ndarray
    how: str


def fit_prototypes(x: np.ndarray, y: np.ndarray, n_classes: int) -> Fitted:
    """Nearest class mean (Snell et al., NeurIPS 2017), corrected for how many photos a mean is of.

    The score of class k is -(|x - c_k|² - v / n_k). A mean of few photos is farther from everything by v / n_k
    (v the variance within classes, summed over features), so without the correction the class of the photo left out, which
    is one short, would lose, and leave-one-out would promise too little; so would small classes always. Leaving one out
    is in closed form: c' = (n c - x) / (n - 1).
    """
    sizes = np.bincount(y, minlength=n_classes).astype(np.float64)
    x = x.astype(np.float64)
    sums = np.zeros((n_classes, x.shape[1]))
    np.add.at(sums, y, x)
    means = sums / sizes[:, None]
    to_own = ((x - means[y]) ** 2).sum(1)
    spread = to_own.sum()
    dof = max(len(x) - n_classes, 1)
    n = sizes[y]
    without = (spread - to_own * n / (n - 1)) / max(len(x) - 1 - n_classes, 1)
    left = -squared(x, means) + without[:, None] / sizes
    left[np.arange(len(x)), y] = -(to_own * (n / (n - 1)) ** 2) + without / (n - 1)
    tensors = {"means": means, "inflation": spread / dof / sizes}
    return Fitted("prototypes", tensors, left, "leave-one-out")


def squared(x: np.ndarray, means: np.ndarray) -> np.ndarray:
    return (x**2).sum(1)[:, None] - 2 * x @ means.T + (means**2).sum(1)


def prototype_scores(x: np.ndarray, means: np.ndarray, inflation: np.ndarray) -> np.ndarray:
    return -squared(x.astype(np.float64), means) + inflation


def fit_linear(x: np.ndarray, y: np.ndarray, n_classes: int, strength: float) -> Fitted:
    """Multinomial logistic regression with classes weighed equally.

    Minimises strength · Σ_i w_i CE(W x_i + b, y_i) + ½ |W|² with w_i = n / (C n_{y_i}): unweighted, the class
    of the photo left out would be rarer and its intercept lower. Up to 200 photos each is left out in turn, exactly;
    above that ten folds, balanced over classes, are.
    """
    n = len(x)
    values, basis = rotated(x)
    folds = np.arange(n) if n <= EXACT else balanced_folds(y, FOLDS)
    keep = np.concatenate([np.ones((1, n)), folds[None] != np.unique(folds)[:, None]])
    weights = np.stack([balanced_weights(k, y, n_classes) for k in keep])
    solved = solve_logistic(values, y, weights, n_classes, strength)
    scores = np.stack([values[i] @ solved[1 + f, :-1] + solved[1 + f, -1] for i, f in enumerate(folds)])
    tensors = {"weight": basis @ solved[0, :-1], "bias": solved[0, -1]}
    return Fitted("linear", tensors, scores, "leave-one-out" if n <= EXACT else f"{FOLDS} folds")


def linear_scores(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) @ weight + bias


def rotated(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The photos in coordinates of the space they span, and its basis: the penalised solution lies there, whatever d is."""
    u, s, vt = np.linalg.svd(x.astype(np.float64), full_matrices=False)
    return u * s, vt.T


def balanced_weights(keep: np.ndarray, y: np.ndarray, n_classes: int) -> np.ndarray:
    sizes = np.bincount(y, weights=keep, minlength=n_classes)
    return keep * keep.sum() / (n_classes * np.maximum(sizes, 1)[y])


def balanced_folds(y: np.ndarray, folds: int) -> np.ndarray:
    """Fold numbers that go round within each class, so that every fold leaves the same share of each class out."""
    out = np.empty(len(y), dtype=np.int64)
    order = np.argsort(y, kind="stable")
    out[order] = np.arange(len(y)) % folds
    return out


def solve_logistic(
    x: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    n_classes: int,
    strength: float,
    tolerance: float = 1e-6,
    steps: int = 3000,
) -> np.ndarray:
    """Weights and intercept ``(T, r + 1, C)`` of T regressions on the same photos under different weights ``(T, n)``.

    Newton steps with Böhning's fixed bound of the Hessian (Ann. Inst. Stat. Math. 44, 1992), factored once each, with
    Nesterov momentum that restarts where it points uphill.
    """
    a = torch.from_numpy(np.concatenate([x, np.ones((len(x), 1))], 1))
    w = torch.from_numpy(weights) * strength
    hot = torch.nn.functional.one_hot(torch.from_numpy(y), n_classes).double()
    r = a.shape[1]
    penalty = torch.ones(r, dtype=a.dtype)
    penalty[-1] = 0
    out = []
    for part in w.split(max(1, 50_000_000 // (r * r))):
        bound = 0.5 * torch.einsum("ni,tn,nj->tij", a, part, a) + torch.diag(penalty + 1e-9)
        out.append(_descend(a, part, hot, penalty[None, :, None], torch.linalg.cholesky(bound), tolerance, steps))
    return torch.cat(out).numpy()


def _descend(
    a: Tensor, w: Tensor, hot: Tensor, penalty: Tensor, factor: Tensor, tolerance: float, steps: int
) -> Tensor:
    now = torch.zeros(len(w), a.shape[1], hot.shape[1], dtype=a.dtype)
    ahead, age = now, torch.ones(len(w), 1, 1, dtype=a.dtype)
    for _ in range(steps):
        wrong = (torch.softmax(a @ ahead, -1) - hot) * w[..., None]
        slope = a.T @ wrong + penalty * ahead
        step = torch.cholesky_solve(slope, factor)
        new = ahead - step
        uphill = (slope * (new - now)).sum((1, 2))[:, None, None] > 0
        age = torch.where(uphill, torch.ones_like(age), age)
        older = (1 + torch.sqrt(1 + 4 * age**2)) / 2
        ahead = new + torch.where(uphill, 0.0, (age - 1) / older) * (new - now)
        now, age = new, older
        if float(step.abs().max()) < tolerance * max(1.0, float(now.abs().max())):
            break
    return now
