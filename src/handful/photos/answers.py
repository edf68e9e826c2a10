"""What `predict` answers: a class or none of these, with probabilities, for every photo."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from handful.frames import write_frame

NONE = "none of these"


@dataclass(frozen=True)
class Answers:
    """Answers for several photos.

    Attributes
    ----------
    probabilities
        ``(n, classes)``, calibrated, given that a photo is of one of the classes.
    refused
        Photos too far from every class to be one of them.
    unreadable
        (name, reason) of photos that could not be read and have no answer.
    """

    photos: tuple[str, ...]
    classes: tuple[str, ...]
    probabilities: np.ndarray
    refused: np.ndarray
    unreadable: tuple[tuple[str, str], ...] = ()

    @property
    def answers(self) -> list[str]:
        """The class of each photo, or ``none of these``."""
        best = self.probabilities.argmax(1)
        return [NONE if no else self.classes[k] for no, k in zip(self.refused, best, strict=True)]

    @property
    def frame(self) -> pl.DataFrame:
        """One row per photo: photo, answer, nearest class, its probability, and the probability of each class."""
        best = self.probabilities.argmax(1)
        return pl.DataFrame(
            {
                "photo": list(self.photos),
                "answer": self.answers,
                "nearest": [self.classes[k] for k in best],
                "probability": self.probabilities.max(1).tolist(),
                **{f"p({c})": self.probabilities[:, k].tolist() for k, c in enumerate(self.classes)},
            },
            schema_overrides={"photo": pl.String, "answer": pl.String, "nearest": pl.String},
        )

    @property
    def counts(self) -> dict[str, int]:
        """How many photos got each answer, classes in their order, refusals last."""
        answers = self.answers
        return {name: answers.count(name) for name in (*self.classes, NONE)}

    @property
    def summary(self) -> str:
        """One sentence: how many photos of each class, how many refused, how many unreadable."""
        counts = self.counts
        found = ", ".join(f"{n} {name}" for name, n in counts.items() if n and name != NONE) or "no class"
        rest = [f"{counts[NONE]} {NONE}"] if counts[NONE] else []
        rest += [f"{len(self.unreadable)} unreadable"] if self.unreadable else []
        photos = len(self) + len(self.unreadable)
        return f"{photos} photo{'s' * (photos != 1)}: {'; '.join([found, *rest])}"

    def why(self, i: int) -> str:
        """Why photo ``i`` got its answer, in words."""
        order = self.probabilities[i].argsort()[::-1]
        likely = ", ".join(f"{self.classes[k]} {100 * self.probabilities[i, k]:.0f}%" for k in order[:2])
        if self.refused[i]:
            return f"farther from every class than the photos it was taught; the nearest is {self.classes[order[0]]}"
        return likely

    def __len__(self) -> int:
        return len(self.photos)

    def __iter__(self) -> Iterator[str]:
        return iter(self.answers)

    def __str__(self) -> str:
        wide = max((len(p) for p in self.photos), default=0)
        lines = []
        for row in self.frame.iter_rows(named=True):
            sure = f"{100 * row['probability']:.0f}%"
            nearest = f"{sure}" if row["answer"] != NONE else f"nearest: {row['nearest']}"
            lines.append(f"{row['photo']:<{wide}}  {row['answer']}  ({nearest})")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from handful.photos.html import table

        shown = self.frame.select("photo", "answer", "nearest", "probability")
        rows = [(r[0], r[1], r[2], f"{100 * r[3]:.0f}%") for r in shown.head(50).iter_rows()]
        return table(("photo", "answer", "nearest", "probability"), rows, self.summary)

    def to_csv(self, path: str | os.PathLike[str]) -> Path:
        """Write `frame` as CSV."""
        from handful.files import write_atomically

        path = Path(path)
        write_atomically(path, lambda t: write_frame(self.frame, t, "csv"))
        return path
