"""Confident learning: which given labels are likely wrong, from predictions that each image had no part in.

Northcutt, Jiang and Chuang, "Confident Learning: Estimating Uncertainty in Dataset Labels" (JAIR 2021). The threshold of a class is the
mean probability of that class among the images that carry its label; an image is counted under the class of largest probability
among those whose threshold it reaches; images counted under another class than their label are the off-diagonal of the
confident joint. Written here because the library that its authors publish, cleanlab, would bring pandas; the tests hold the two to the same
answers where it is installed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FOLDS = 5
WIDTH = 96
"""Directions of most variance that the classifier sees."""
FLOOR = 1e-12


@dataclass(frozen=True, eq=False)
class Doubt:
    """Images (positions) whose label is doubted, the class that is likelier, and how much likelier: p(other) - p(given)."""

    at: np.ndarray
    suggested: np.ndarray
    margin: np.ndarray


def thresholds(p: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Mean probability of each class among the images that carry its label; above 1 where none does."""
    counts = np.bincount(given, minlength=p.shape[1])
    sums = np.bincount(given, weights=p[np.arange(len(p)), given], minlength=p.shape[1])
    return np.where(counts > 0, sums / np.maximum(counts, 1), 2.0)


def confident(p: np.ndarray, given: np.ndarray, most: float = 2.0) -> np.ndarray:
    """The class that each image is confidently counted under; -1 where it reaches no threshold.

    No threshold is above ``most``: of a class whose images are all but certain the threshold is all but 1, and an image as certain as
    they are could miss it by a millionth.
    """
    reached = p >= np.minimum(thresholds(p, given), most) - FLOOR
    best = np.where(reached, p, -1.0).argmax(1)
    return np.where(reached.any(1), best, -1)


def doubted(p: np.ndarray, given: np.ndarray, least: float = 0.0, most: float = 2.0) -> Doubt:
    """The off-diagonal of the confident joint, of margin ``least`` at least, the most doubtful first."""
    found = confident(p, given, most)
    rows = np.arange(len(p))
    margin = p[rows, np.maximum(found, 0)] - p[rows, given]
    at = np.flatnonzero((found >= 0) & (found != given) & (margin > least))
    at = at[np.argsort(-margin[at], kind="stable")]
    return Doubt(at, found[at], margin[at])


def folds(given: np.ndarray, seed: int, n: int = FOLDS) -> np.ndarray:
    """A fold for each image, the images of a class spread evenly."""
    rng = np.random.default_rng([seed, 0xF01D])
    order = rng.permutation(len(given))
    order = order[np.argsort(given[order], kind="stable")]
    starts = np.zeros(len(given), dtype=np.int64)
    counts = np.bincount(given)
    place = np.arange(len(given)) - np.repeat(np.cumsum(counts) - counts, counts)
    starts[order] = (place + rng.integers(0, n, len(counts))[given[order]]) % n
    return starts


def out_of_fold(x: np.ndarray, given: np.ndarray, seed: int, n: int = FOLDS) -> np.ndarray:
    """Probabilities of the classes for each image, by a classifier that was fitted without it.

    Gaussians with one shrunk covariance and a mean for each class (Friedman, "Regularized discriminant analysis", JASA 1989) on the
    directions of most variance: fitted in closed form, so that ten thousand images of a hundred classes take seconds.
    """
    x = principal(np.asarray(x, dtype=np.float32), WIDTH)
    scores = np.zeros((len(x), int(given.max()) + 1))
    fold = folds(given, seed, n)
    for k in range(n):
        fit, held = fold != k, fold == k
        if held.any():
            scores[held] = discriminant(x[fit], given[fit], x[held], scores.shape[1])
    return softmax(scores)


def softmax(scores: np.ndarray) -> np.ndarray:
    p = np.exp(scores - scores.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def principal(x: np.ndarray, most: int) -> np.ndarray:
    """Coordinates along the directions of most variance (never more than a third of the images)."""
    x = x - x.mean(0, keepdims=True)
    most = min(most, max(2, len(x) // 3))
    if x.shape[1] <= most:
        return x
    from sklearn.utils.extmath import randomized_svd

    u, s, _ = randomized_svd(x, most, n_iter=3, random_state=0)
    return u * s


def discriminant(x: np.ndarray, y: np.ndarray, asked: np.ndarray, n_classes: int) -> np.ndarray:
    """Log posterior of each class, up to a constant and with equal priors, for ``asked``."""
    counts = np.bincount(y, minlength=n_classes)
    x, asked = x.astype(np.float64), asked.astype(np.float64)
    means = np.zeros((n_classes, x.shape[1]))
    np.add.at(means, y, x)
    means /= np.maximum(counts, 1)[:, None]
    rest = x - means[y]
    d = x.shape[1]
    spread = rest.T @ rest / max(len(x) - int((counts > 0).sum()), 1)
    shrink = min(1.0, max(0.05, d / len(x)))
    spread = (1 - shrink) * spread + (shrink * np.trace(spread) / d + 1e-9) * np.eye(d)
    half = np.linalg.inv(np.linalg.cholesky(spread)).T
    a, m = asked @ half, means @ half
    far = np.square(a).sum(1)[:, None] - 2 * a @ m.T + np.square(m).sum(1)[None]
    far[:, counts == 0] = np.inf
    return -0.5 * (far - far.min(1, keepdims=True))
