"""An honest learning curve: how much more labels are likely to bring, with its interval."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from handful.metrics.base import TAILS
from handful.photos.expecting import NEXT
from handful.photos.heads import prototype_scores

FEWEST, MORE, DRAWS, STEPS = 12, 10, 200, 5


@dataclass(frozen=True)
class Curve:
    """Accuracy against labels.

    Attributes
    ----------
    labels, accuracy
        Points measured: photos learned from, and the share right of those held out.
    gain, low, high
        What ten more labels should bring, as a difference of shares, and the 95% interval of the difference that the next hundred
        photos will show.
    """

    labels: tuple[int, ...]
    accuracy: tuple[float, ...]
    gain: float
    low: float
    high: float

    @property
    def sentence(self) -> str:
        half = 50 * (self.high - self.low)
        return f"Ten more labels should gain {100 * self.gain:.1f} ± {half:.1f} points; stop here if that is little."

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "sentence": self.sentence}


def learning_curve(x: np.ndarray, y: np.ndarray, seed: int = 0) -> Curve | None:
    """Nearest class means fitted to random parts of the labels and asked about the rest; None below a dozen labels.

    A draw orders the photos at random (two of every class first), learns from the first m of them and asks the others, for
    several m. Error is taken to fall as a power of the labels, err(m) = a m^-b with b from 0 to 1 (Hestness et al.,
    arXiv 1712.00409), fitted by least squares of the logarithms. The interval resamples the photos (bootstrap) with the draws
    they were in, so it holds the chance of the photos at hand, and adds what the fitted curve does not know: which ten photos
    will be labelled (the spread over draws), and which hundred will be asked (the photos whose answer turns right or wrong).
    """
    n, classes = len(y), int(y.max(initial=-1)) + 1
    start = 2 * classes
    if n < max(FEWEST, start + STEPS):
        return None
    sizes = np.unique(np.linspace(start, n - max(2, n // 6), STEPS).round().astype(np.int64))
    rng = np.random.default_rng(seed)
    right, asked = np.zeros((len(sizes), n)), np.zeros((len(sizes), n))
    turned, steps = [], []
    for _ in range(DRAWS):
        order = _order(y, classes, rng)
        last = int(sizes[-1])
        before, after = (_right(x, y, classes, order[:m], order[last:]) for m in (max(start, last - MORE), last))
        turned.append(float((before != after).mean()))
        steps.append(float(after.mean() - before.mean()))
        for s, m in enumerate(sizes):
            own, rest = order[:m], order[m:]
            right[s, rest] += _right(x, y, classes, own, rest)
            asked[s, rest] += 1
    weights = np.concatenate([np.ones((1, n)), rng.multinomial(n, np.full(n, 1 / n), size=400)])
    accuracy = (weights @ right.T) / np.maximum(weights @ asked.T, 1)
    gains = np.array([_gain(sizes, row, n) for row in accuracy])
    flips = max(float(np.mean(turned)), 1 / (n + 2))
    which_ten = max(0.0, float(np.var(steps)) - flips / (n - int(sizes[-1])))
    half = float(norm.ppf(TAILS[1]) * np.sqrt(gains[1:].var() + which_ten + flips / NEXT))
    points = tuple(float(a) for a in accuracy[0])
    gain = float(gains[0])
    return Curve(tuple(int(m) for m in sizes), points, gain, gain - half, gain + half)


def _right(x: np.ndarray, y: np.ndarray, classes: int, own: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Which of ``rest`` nearest class means of ``own`` get right."""
    means, counts = np.zeros((classes, x.shape[1])), np.bincount(y[own], minlength=classes)
    np.add.at(means, y[own], x[own])
    means /= counts[:, None]
    spread = ((x[own] - means[y[own]]) ** 2).sum() / max(len(own) - classes, 1)
    return prototype_scores(x[rest], means, spread / counts).argmax(1) == y[rest]


def _order(y: np.ndarray, classes: int, rng: np.random.Generator) -> np.ndarray:
    """A random order that begins with two photos of each class."""
    order = rng.permutation(len(y))
    rank = np.empty(len(y), dtype=np.int64)
    for k in range(classes):
        own = order[y[order] == k]
        rank[own] = np.arange(len(own))
    return np.concatenate([order[rank[order] < 2], order[rank[order] >= 2]])


def _gain(sizes: np.ndarray, accuracy: np.ndarray, n: int) -> float:
    """What the fitted power law says of ten more labels."""
    error = np.log(np.maximum(1 - accuracy, 0.5 / n))
    at = np.log(sizes)
    slope = float(np.clip(-np.polyfit(at, error, 1)[0], 0, 1))
    level = float(error.mean() + slope * at.mean())
    return float(np.exp(level) * (n**-slope - (n + MORE) ** -slope))
