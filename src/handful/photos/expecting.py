"""What to expect of a classifier before it has seen a new photo: everything from scores of photos left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from scipy.stats import betabinom

from handful.metrics.base import SHOWN, TAILS, Estimate, mean_interval
from handful.photos.heads import Fitted, fit_prototypes, prototype_scores

BOOTSTRAPS = 1000
NEXT = 100
"""Photos that the interval speaks of."""


@dataclass(frozen=True)
class Expected:
    """Accuracy to expect on new photos of the same classes, and the 95% interval of the share right among the next hundred."""

    accuracy: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{100 * self.accuracy:.0f}% ({SHOWN} interval for the next {NEXT}: {100 * self.low:.0f} to {100 * self.high:.0f}%)"

    @property
    def sentence(self) -> str:
        """The same for a person."""
        low, high = round(self.low * NEXT), round(self.high * NEXT)
        return (
            f"{100 * self.accuracy:.0f}% of new photos of these classes right; "
            f"of the next {NEXT}, {low} to {high} ({SHOWN} interval)"
        )

    def __contains__(self, accuracy: float) -> bool:
        return self.low <= accuracy <= self.high


@dataclass(frozen=True)
class ChosenHead:
    """The head chosen, its temperature, the probabilities of the photos left out, and what to expect."""

    head: Fitted
    temperature: float
    probabilities: np.ndarray
    losses: dict[str, float]
    expected: Expected


def temperature_of(scores: np.ndarray, y: np.ndarray) -> float:
    """The temperature under which softmax(scores / T) is calibrated on photos left out (Guo et al., ICML 2017).

    The targets are Platt's: (n + 1) / (n + 2) on the photo's class, the rest shared by the others, so that fifty photos that
    are all right do not make a certainty.
    """
    n, c = scores.shape
    target = np.full((n, c), 1 / (n + 2) / max(c - 1, 1))
    target[np.arange(n), y] = (n + 1) / (n + 2)
    unit = float(scores.std()) or 1.0
    found = minimize_scalar(
        lambda u: -(target * log_softmax(scores / (unit * math.exp(u)), axis=1)).sum(), bounds=(-8, 8), method="bounded"
    )
    return unit * math.exp(float(found.x))


def choose(heads: Sequence[Fitted], y: np.ndarray, seed: int = 0) -> ChosenHead:
    """The head with the smaller log loss on photos left out, the first on a tie, and the accuracy to expect of the choice.

    The better of two estimates flatters. Bootstrap bias correction (Tsamardinos, Greasidou and Borboudakis, Machine
    Learning 107, 2018) takes that back without another fit: choose on a resample of the photos, score the choice on
    the photos that the resample left, and average. The interval is `predictive`.
    """
    n = len(y)
    temperatures = [temperature_of(h.left_out, y) for h in heads]
    logs = np.stack([log_softmax(h.left_out / t, axis=1) for h, t in zip(heads, temperatures, strict=True)])
    losses = -logs[:, np.arange(n), y]
    right = (logs.argmax(2) == y).astype(np.float64)
    best = int(losses.mean(1).argmin())
    expected = predictive(corrected(losses, right, seed), n)
    named = {h.name: float(loss) for h, loss in zip(heads, losses.mean(1), strict=True)}
    return ChosenHead(
        heads[best], temperatures[best], softmax(heads[best].left_out / temperatures[best], axis=1), named, expected
    )


def corrected(losses: np.ndarray, right: np.ndarray, seed: int) -> float:
    """Accuracy ``(heads, n)`` of the head that would be chosen, on photos that the choice has not seen."""
    heads, n = losses.shape
    if heads == 1:
        return float(right.mean())
    counts = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=BOOTSTRAPS)
    chosen = (counts @ losses.T).argmin(1)
    out = counts == 0
    fair = out.sum(1) > 0
    return float(((out * right[chosen]).sum(1)[fair] / out.sum(1)[fair]).mean())


def predictive(accuracy: float, n: int) -> Expected:
    """The 95% interval of the share right among the next hundred photos, after n of which ``accuracy`` were right.

    The beta-binomial predictive distribution under Jeffreys' prior, Beta(1/2, 1/2). An interval of the long-run accuracy
    would be narrower by the chance of the hundred; a person sees hundreds, not long runs.
    """
    right = accuracy * n
    low, high = (float(betabinom.ppf(q, NEXT, right + 0.5, n - right + 0.5)) / NEXT for q in TAILS)
    return Expected(accuracy, low, high)


def strangeness(distances: np.ndarray) -> np.ndarray:
    """How far a photo is from its nearest class, in units of its mean distance from all of them."""
    d = np.maximum(distances, 1e-12)
    return d.min(1) / d.mean(1)


def refusal_threshold(left_out: np.ndarray, rate: float) -> tuple[float, float]:
    """The strangeness above which a photo is none of these, and the share of the classes' own photos that exceed it.

    A conformal quantile (Vovk, Gammerman and Shafer, 2005): a new photo of these classes is as likely to be the strangest
    as any of the n left out, so that rank ceil((n + 1)(1 - rate)) is exceeded at no more than the rate.
    """
    n = len(left_out)
    if rate <= 0:
        return math.inf, 0.0
    rank = min(n, math.ceil((n + 1) * (1 - rate)))
    return float(np.sort(left_out)[rank - 1]), max(rate, 1 / (n + 1))


def strangers_caught(x: np.ndarray, y: np.ndarray, rate: float) -> Estimate | None:
    """The share of photos of a class never shown that would be refused: each class in turn is left out and then asked.

    The interval is over classes, for the next stranger will be of a new one; None with fewer than three classes.
    """
    found = _left_out_classes(x, y, rate)
    return mean_interval(np.asarray(found), "classes left out") if found else None


def rate_that_catches(x: np.ndarray, y: np.ndarray, share: float, least: float = 0.01) -> float:
    """The smallest refusal rate under which, class by class left out, ``share`` of the strangers are refused."""
    rates = np.linspace(least, 0.5, 50)
    for rate in rates:
        found = _left_out_classes(x, y, float(rate))
        if found and np.mean(found) >= share:
            return float(rate)
    return float(rates[-1])


def _left_out_classes(x: np.ndarray, y: np.ndarray, rate: float) -> list[float]:
    """For each class, the share of its photos that a classifier of the others refuses; nothing below three classes."""
    classes, found = np.unique(y), []
    for k in classes if len(classes) > 2 else ():
        rest, own = y != k, y == k
        _, others = np.unique(y[rest], return_inverse=True)
        fitted = fit_prototypes(x[rest], others, len(classes) - 1)
        threshold, _ = refusal_threshold(strangeness(-fitted.left_out), rate)
        far = strangeness(-prototype_scores(x[own], fitted.tensors["means"], fitted.tensors["inflation"]))
        found.append(float((far > threshold).mean()))
    return found
