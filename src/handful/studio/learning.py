"""What can be said from the labels so far: suggestions, what to expect, what looks wrong, and what to label next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from handful.photos.answers import NONE
from handful.photos.classifier import Classifier, learn
from handful.photos.expecting import ChosenHead
from handful.photos.findings import copies, first_of_copies, suspects
from handful.studio.curve import Curve, learning_curve

PER_CELL, REASONS = 60, 5


@dataclass(frozen=True)
class Shown:
    """What has been labelled and what has not, at one moment.

    Attributes
    ----------
    numbers, x
        Of all photos that are embedded, in the order of their numbers.
    labels
        Of these photos by number.
    """

    numbers: np.ndarray
    x: np.ndarray
    labels: Mapping[int, str]
    names: Mapping[int, str]
    digests: Mapping[int, str]
    tiny: Mapping[int, np.ndarray]


@dataclass(frozen=True)
class Learned:
    """A classifier of the labels so far, and the evidence; ``classifier`` is None while there are too few of them."""

    advice: str
    classes: tuple[str, ...] = ()
    classifier: Classifier | None = None
    chosen: ChosenHead | None = None
    curve: Curve | None = None
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    y: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    x: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    facts: dict[str, Any] = field(default_factory=dict)

    def why(self, x: np.ndarray) -> list[tuple[int, float]]:
        """The labelled photos nearest to a photo's features: number and cosine similarity."""
        if not len(self.rows):
            return []
        like = self.x @ x
        order = np.argsort(-like, kind="stable")[:REASONS]
        return [(int(self.rows[i]), float(like[i])) for i in order]


def learned(shown: Shown, seed: int = 0) -> Learned:
    """Fit to the labels of this moment; the same labels give the same answer."""
    rows = np.array([n for n in shown.numbers.tolist() if n in shown.labels], dtype=np.int64)
    every = sorted({shown.labels[int(n)] for n in rows}, key=lambda c: (c == NONE, c))
    y = np.array([every.index(shown.labels[int(n)]) for n in rows], dtype=np.int64)
    if len(rows):
        keep = first_of_copies([shown.digests[int(n)] for n in rows], y)
        rows, y = rows[keep], y[keep]
    sizes = np.bincount(y, minlength=len(every))
    ready = [k for k in range(len(every)) if sizes[k] > 1]
    lone = [every[k] for k in range(len(every)) if sizes[k] == 1]
    at = {int(n): i for i, n in enumerate(shown.numbers)}
    if len(ready) < 2:
        x = shown.x[[at[int(n)] for n in rows]] if len(rows) else np.zeros((0, 0))
        return Learned(_advice(every, lone), tuple(every), rows=rows, y=y, x=x)
    some = np.isin(y, ready)
    rows, y = rows[some], np.searchsorted(ready, y[some])
    classes = tuple(every[k] for k in ready)
    x = shown.x[[at[int(n)] for n in rows]].astype(np.float64)
    classifier, chosen = learn(x, y, len(classes), seed=seed)
    facts = _facts(shown, rows, y, classes, classifier, chosen)
    curve = learning_curve(x, y, seed)
    facts["curve"] = curve.as_dict() if curve else None
    advice = f"label another photo of {', '.join(lone[:3])}: one makes no class" if lone else ""
    return Learned(advice, classes, classifier, chosen, curve, rows, y, x, facts)


def _advice(classes: list[str], lone: list[str]) -> str:
    if not classes:
        return "label two photos of each of two things, and suggestions appear"
    if len(classes) < 2:
        return f"only {classes[0]} so far: label two photos of something else too"
    return f"label another photo of {' and of '.join(lone[:2])}: one makes no class"


def _facts(
    shown: Shown, rows: np.ndarray, y: np.ndarray, classes: tuple[str, ...], classifier: Classifier, chosen: ChosenHead
) -> dict[str, Any]:
    """Everything the page shows, as plain values; photos by number."""
    probabilities, refused = classifier.answer(shown.x.astype(np.float64))
    best = probabilities.argmax(1)
    labelled = set(rows.tolist())
    suggestions = [
        [int(n), classes[k], round(float(p), 4), bool(no)]
        for n, k, p, no in zip(shown.numbers, best, probabilities.max(1), refused, strict=True)
        if int(n) not in labelled and int(n) not in shown.labels
    ]
    said = chosen.probabilities.argmax(1)
    cells: dict[tuple[int, int], list[int]] = {}
    for n, truth, got in zip(rows.tolist(), y.tolist(), said.tolist(), strict=True):
        cells.setdefault((truth, got), []).append(n)
    numbers = [str(n) for n in rows]
    doubt = suspects(chosen.probabilities, y, numbers, classes)
    tiny = np.stack([shown.tiny[n] for n in rows.tolist()])
    alike = copies(tiny, [shown.digests[n] for n in rows.tolist()], y, numbers, classes)
    return {
        "classes": list(classes),
        "suggestions": suggestions,
        "expected": {
            "accuracy": chosen.expected.accuracy,
            "low": chosen.expected.low,
            "high": chosen.expected.high,
            "sentence": f"Expect {chosen.expected.sentence}.",
        },
        "head": chosen.head.name,
        "photos": len(rows),
        "confusion": [
            {"truth": t, "said": s, "photos": found[:PER_CELL], "n": len(found)}
            for (t, s), found in sorted(cells.items())
        ],
        "suspects": [
            {"photo": int(s.photo), "label": s.label, "like": s.looks_like, "probability": round(s.probability, 4)}
            for s in doubt
        ],
        "copies": [{"first": int(c.first), "second": int(c.second), "exact": c.exact} for c in alike[:100]],
        "calibration": _calibration(chosen.probabilities, y),
    }


def _calibration(probabilities: np.ndarray, y: np.ndarray, bins: int = 5) -> list[dict[str, float]]:
    """Of photos left out that were given a probability in one fifth of the range: how many, said and right on average."""
    top, right = probabilities.max(1), probabilities.argmax(1) == y
    at = np.minimum((top * bins).astype(np.int64), bins - 1)
    return [
        {"photos": int(m.sum()), "said": float(top[m].mean()), "right": float(right[m].mean())}
        for b in range(bins)
        if (m := at == b).any()
    ]
