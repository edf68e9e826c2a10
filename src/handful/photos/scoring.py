"""Was the promise kept? A classifier of photos asked about a labelled folder that it has not learned from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest

from handful.errors import BadInput
from handful.metrics.base import LEVEL, SHOWN
from handful.photos.answers import NONE, Answers
from handful.photos.expecting import Expected


@dataclass(frozen=True)
class HeldOut:
    """How a classifier did on photos with known labels.

    Attributes
    ----------
    photos, right
        Photos of the classifier's own classes, and how many of them have their class as the nearest one.
    answered, answered_right
        Those that were not refused, and how many of these are right.
    strangers, strangers_refused
        Photos of classes that it was never shown, and how many of them were called none of these.
    by_class
        For each class: photos, right, refused.
    expected
        What `fit` promised; nothing where nothing was fitted.
    """

    photos: int
    right: int
    answered: int
    answered_right: int
    strangers: int
    strangers_refused: int
    by_class: dict[str, tuple[int, int, int]]
    expected: Expected | None

    @property
    def accuracy(self) -> float:
        return self.right / self.photos

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval of the accuracy."""
        found = binomtest(self.right, self.photos).proportion_ci(LEVEL, "wilson")
        return float(found.low), float(found.high)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "accuracy": self.accuracy, "interval": self.interval}

    def __str__(self) -> str:
        low, high = self.interval
        e = self.expected
        promised = (
            f", where {100 * e.accuracy:.0f}% ({100 * e.low:.0f} to {100 * e.high:.0f}) was expected" if e else ""
        )
        lines = [
            f"{self.right} of {self.photos} right: {100 * self.accuracy:.0f}% ({SHOWN} interval {100 * low:.0f} to "
            f"{100 * high:.0f}%){promised}"
        ]
        refused = self.photos - self.answered
        if refused:
            share = (
                f"{self.answered_right} of the {self.answered} answered are right" if self.answered else "none answered"
            )
            lines.append(f"{refused} of them were called '{NONE}'; {share}")
        if self.strangers:
            lines.append(
                f"{self.strangers_refused} of {self.strangers} photos of other classes were called '{NONE}' "
                f"({100 * self.strangers_refused / self.strangers:.0f}%)"
            )
        wide = max(map(len, self.by_class))
        lines += [
            f"  {c:<{wide}}  {right} of {n} right, {no} refused" for c, (n, right, no) in self.by_class.items() if n
        ]
        return "\n".join(lines)


def held_out(answers: Answers, truth: list[str], expected: Expected | None) -> HeldOut:
    """Compare answers with the true classes; classes that the classifier does not know are strangers."""
    known = np.asarray([t in answers.classes for t in truth], dtype=bool)
    if not known.any():
        raise BadInput(
            f"no photo there is of a class that the model knows ({', '.join(answers.classes[:5])}); name folders as its classes"
        )
    nearest = np.asarray(answers.classes)[answers.probabilities.argmax(1)]
    right, refused = (nearest == np.asarray(truth)) & known, np.asarray(answers.refused)
    by_class = {}
    for name in answers.classes:
        own = np.asarray([t == name for t in truth], dtype=bool)
        by_class[name] = (int(own.sum()), int((own & right).sum()), int((own & refused).sum()))
    return HeldOut(
        photos=int(known.sum()),
        right=int(right.sum()),
        answered=int((known & ~refused).sum()),
        answered_right=int((right & ~refused).sum()),
        strangers=int((~known).sum()),
        strangers_refused=int((~known & refused).sum()),
        by_class=by_class,
        expected=expected,
    )
