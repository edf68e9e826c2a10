"""What a person would want to look at again: classes that are confused, photos that look mislabelled, copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

DOUBT = 0.05
ALARMS, FEWEST = 0.025, 5
"""At most this share of the photos, or so many where that is more, is ever called mislabelled: so false alarms stay below it."""
SAME = 0.995


@dataclass(frozen=True)
class Confusion:
    """Two classes and how many of their photos are taken for the other when left out."""

    a: str
    b: str
    wrong: int
    photos: int


@dataclass(frozen=True)
class Suspect:
    """A photo whose label the others do not support: the probability of its label, and of the class it looks like."""

    photo: str
    label: str
    looks_like: str
    probability: float


@dataclass(frozen=True)
class Copy:
    """Two photos that show the same; ``exact`` if no pixel differs."""

    first: str
    second: str
    exact: bool
    classes: tuple[str, str]


def confusions(probabilities: np.ndarray, y: np.ndarray, classes: Sequence[str]) -> list[Confusion]:
    """Pairs of classes, the most confused first; without any mistake, the pair with most probability on the other class."""
    c = len(classes)
    sizes = np.bincount(y, minlength=c)
    wrong = np.zeros((c, c))
    np.add.at(wrong, (y, probabilities.argmax(1)), 1)
    soft = np.zeros((c, c))
    np.add.at(soft, y, probabilities)
    a, b = np.triu_indices(c, 1)
    both, mass = wrong[a, b] + wrong[b, a], soft[a, b] + soft[b, a]
    order = np.lexsort((-mass, -both))
    return [Confusion(classes[a[i]], classes[b[i]], int(both[i]), int(sizes[a[i]] + sizes[b[i]])) for i in order]


def suspects(probabilities: np.ndarray, y: np.ndarray, names: Sequence[str], classes: Sequence[str]) -> list[Suspect]:
    """Photos that, left out, are given another class with a probability above 1/2 and their own with one below 0.05.

    The bounds were chosen on miniImageNet and Meta-Album photos with three labels of about fifty exchanged (`benchmarks/
    fifty_photos.py` measures what they find); both keep photos out that are merely hard. Most doubtful first, and no more
    than ``ALARMS`` of all photos: where classes are alike, hundreds would pass the bounds.
    """
    n = len(y)
    own = probabilities[np.arange(n), y]
    other = probabilities.copy()
    other[np.arange(n), y] = -1
    like = other.argmax(1)
    chosen = (own < DOUBT) & (other[np.arange(n), like] > 0.5)
    doubt = np.log(np.maximum(other[np.arange(n), like], 1e-12)) - np.log(np.maximum(own, 1e-12))
    order = sorted(np.flatnonzero(chosen).tolist(), key=lambda i: -doubt[i])
    order = order[: max(FEWEST, math.ceil(ALARMS * n))]
    return [Suspect(names[i], classes[int(y[i])], classes[int(like[i])], float(other[i, like[i]])) for i in order]


def copies(
    images: np.ndarray, digests: Sequence[str], y: np.ndarray, names: Sequence[str], classes: Sequence[str]
) -> list[Copy]:
    """Exact copies, and near ones: grey 16 x 16 thumbnails that correlate above 0.995 (resized, saved again, retouched)."""
    luma = images @ np.array([0.299, 0.587, 0.114])
    side = luma.shape[1] // 16 * 16
    small = luma[:, :side, :side].reshape(len(luma), 16, side // 16, 16, side // 16).mean((2, 4)).reshape(len(luma), -1)
    small = small - small.mean(1, keepdims=True)
    length = np.linalg.norm(small, axis=1)
    flat = length < 16  # a picture of one tone resembles every other of its kind
    small = small / np.maximum(length, 1e-9)[:, None]
    like = small @ small.T > SAME
    like &= ~(flat[:, None] | flat[None])
    digest = np.asarray(digests)
    same = digest[:, None] == digest[None]
    out = []
    for i, j in zip(*np.nonzero(np.triu(like | same, 1)), strict=True):
        out.append(Copy(names[i], names[j], bool(same[i, j]), (classes[y[i]], classes[y[j]])))
    return out


def first_of_copies(digests: Sequence[str], y: np.ndarray) -> np.ndarray:
    """Rows to keep: of exact copies within a class only the first, for a copy left out would be recognised by its twin."""
    seen: set[tuple[str, int]] = set()
    keep = []
    for i, key in enumerate(zip(digests, y.tolist(), strict=True)):
        if key not in seen:
            seen.add(key)
            keep.append(i)
    return np.asarray(keep, dtype=np.int64)
