"""Scores of refusal: how sure one can be that a query is of a class of its task at all. Larger is surer.

Each is a function of a task: the scores of its queries (Q, C), and for some the embedded support (S, D), its labels and
the embedded queries (Q, D). The definitions are those of pytorch-ood (kkirchheim/pytorch-ood) with the sign turned round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from handful import registry
from handful.metrics.calibration import probabilities


@dataclass(frozen=True)
class Evidence:
    """What a score of refusal may look at; ``support`` and ``query`` are None where a learner does not embed."""

    scores: np.ndarray
    support: np.ndarray | None = None
    labels: np.ndarray | None = None
    query: np.ndarray | None = None


class Refusal:
    """Base of the scores; ``embeds`` says whether embedded images are needed."""

    name: ClassVar[str] = ""
    embeds: ClassVar[bool] = False

    def __call__(self, e: Evidence) -> np.ndarray:
        raise NotImplementedError


class LargestProbability(Refusal):
    """The probability of the answer (Hendrycks and Gimpel, ICLR 2017)."""

    name = "probability"

    def __call__(self, e: Evidence) -> np.ndarray:
        return probabilities(e.scores).max(1)


class Energy(Refusal):
    """The logarithm of the summed exponentials of the scores (Liu et al., NeurIPS 2020)."""

    name = "energy"

    def __call__(self, e: Evidence) -> np.ndarray:
        from scipy.special import logsumexp

        return np.asarray(logsumexp(e.scores.astype(np.float64), axis=1))


class Margin(Refusal):
    """The probability of the answer less that of the runner-up."""

    name = "margin"

    def __call__(self, e: Evidence) -> np.ndarray:
        p = np.sort(probabilities(e.scores), axis=1)
        return np.asarray(p[:, -1] - p[:, -2])


class Entropy(Refusal):
    """Minus the entropy of the probabilities."""

    name = "entropy"

    def __call__(self, e: Evidence) -> np.ndarray:
        p = probabilities(e.scores)
        return np.asarray((p * np.log(np.maximum(p, 1e-300))).sum(1))


class LargestScore(Refusal):
    """The largest score itself (Hendrycks et al., ICML 2022)."""

    name = "score"

    def __call__(self, e: Evidence) -> np.ndarray:
        return np.asarray(e.scores.max(1), dtype=np.float64)


class EmbeddedRefusal(Refusal):
    """Scores that look at embedded images."""

    embeds = True

    def __call__(self, e: Evidence) -> np.ndarray:
        assert e.support is not None and e.labels is not None and e.query is not None
        support, query = e.support.astype(np.float64), e.query.astype(np.float64)
        return self.of(support, query, e.labels, e.scores)

    def of(self, support: np.ndarray, query: np.ndarray, labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
        raise NotImplementedError


class NearestPrototype(EmbeddedRefusal):
    """Minus the distance to the nearest class mean."""

    name = "prototype"

    def of(self, support: np.ndarray, query: np.ndarray, labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
        return -distances(query, means(support, labels)).min(1)


class Mahalanobis(EmbeddedRefusal):
    """Minus the nearest squared Mahalanobis distance to a class mean, one covariance for all classes (Lee et al., NeurIPS 2018).

    Few images in many dimensions have a singular covariance: it is shrunk as Ledoit and Wolf (2004) do.
    """

    name = "mahalanobis"

    def of(self, support: np.ndarray, query: np.ndarray, labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
        centres = means(support, labels)
        within = support - centres[np.unique(labels, return_inverse=True)[1]]
        return -squared_mahalanobis(query, centres, within).min(1)


class NearestNeighbour(EmbeddedRefusal):
    """Minus the distance to the nearest support image, of unit vectors (Sun et al., ICML 2022, with k = 1)."""

    name = "k-nn"

    def of(self, support: np.ndarray, query: np.ndarray, labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
        return -distances(unit(query), unit(support)).min(1)


class ViM(EmbeddedRefusal):
    """Energy less a virtual logit: the length of a query's part outside the support's own subspace (Wang et al., CVPR 2022).

    The origin is the support's mean (the published one comes from a classifier's weights, which most heads do not have); the
    subspace has half as many dimensions as the support allows, and the virtual logit is scaled so that over the support it
    equals the largest score over the queries on average.
    """

    name = "vim"

    def of(self, support: np.ndarray, query: np.ndarray, labels: np.ndarray, scores: np.ndarray) -> np.ndarray:
        from scipy.special import logsumexp

        origin = support.mean(0)
        _, sizes, directions = np.linalg.svd(support - origin, full_matrices=False)
        keep = directions[: max(1, int((sizes > 1e-9).sum()) // 2)]

        def outside(x: np.ndarray) -> np.ndarray:
            centred = x - origin
            return np.asarray(np.linalg.norm(centred - centred @ keep.T @ keep, axis=1))

        usual = outside(support).mean()
        scale = np.abs(scores.max(1)).mean() / usual if usual > 1e-9 else 1.0
        return np.asarray(logsumexp(scores.astype(np.float64), axis=1) - scale * outside(query))


def means(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return np.stack([x[labels == k].mean(0) for k in np.unique(labels)])


def distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    squared = (a**2).sum(1)[:, None] + (b**2).sum(1)[None] - 2 * a @ b.T
    return np.sqrt(np.maximum(squared, 0))


def unit(x: np.ndarray) -> np.ndarray:
    return np.asarray(x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12))


def squared_mahalanobis(query: np.ndarray, centres: np.ndarray, within: np.ndarray) -> np.ndarray:
    """(Q, C) through the shrunk covariance (1 - s) W'W/n + s μ I, inverted in the space of the n images (Woodbury)."""
    n, d = within.shape
    s = shrinkage(within)
    floor = max(s * (within**2).sum() / (n * d), 1e-12)
    strength = (1 - s) / n
    apart = (query[:, None] - centres[None]).reshape(-1, d)
    projected = apart @ within.T
    core = np.eye(n) * floor + strength * within @ within.T
    lost = strength * (projected * np.linalg.solve(core, projected.T).T).sum(1)
    return np.asarray((((apart**2).sum(1) - lost) / floor).reshape(len(query), len(centres)))


def shrinkage(x: np.ndarray) -> float:
    """Ledoit and Wolf's share of the identity for centred rows, through their (n, n) products: few images, many dimensions."""
    n, d = x.shape
    lengths, gram = (x**2).sum(1), x @ x.T
    mean = lengths.sum() / (n * d)
    spread = ((gram**2).sum() / n**2 - d * mean**2) / d
    noise = ((lengths**2).sum() / n - (gram**2).sum() / n**2) / (d * n)
    return float(min(noise, spread) / spread) if spread > 0 else 0.0


def all_scores(e: Evidence) -> dict[str, np.ndarray]:
    """Every registered score that the evidence serves."""
    found: dict[str, np.ndarray] = {}
    for name in registry.names("refusals"):
        refusal: Any = registry.make("refusals", name)
        if not refusal.embeds or e.support is not None:
            found[name] = refusal(e)
    return found
