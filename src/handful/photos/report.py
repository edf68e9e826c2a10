"""What `fit` has to say, in words and as plain values."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from handful.metrics.base import Estimate
from handful.photos.expecting import Expected
from handful.photos.findings import ALARMS, FEWEST, Confusion, Copy, Suspect

SHOWN = 8


@dataclass(frozen=True)
class FitReport:
    """Everything found while fitting; printing it tells a person what to expect and what to look at.

    Attributes
    ----------
    expected
        Accuracy to expect on new photos of these classes, all of them answered.
    losses, how
        Log loss of each head on photos left out, and how they were left out.
    rate
        Share of new photos of these classes that will be called none of these.
    strangers
        Share of photos of a class never shown that will be called so, from leaving each class out in turn.
    alone
        Classes left out because one photo does not make a class.
    """

    photos: int
    sizes: dict[str, int]
    net: str
    head: str
    losses: dict[str, float]
    how: str
    expected: Expected
    rate: float
    confusions: tuple[Confusion, ...]
    suspects: tuple[Suspect, ...]
    copies: tuple[Copy, ...]
    left_out: tuple[str, ...]
    unreadable: tuple[tuple[str, str], ...]
    strangers: Estimate | None = None
    alone: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        return "\n".join([*self._what(), *self._doubts()])

    def _repr_html_(self) -> str:
        from handful.photos.html import lines

        return lines([*self._what(), *self._doubts()])

    def _what(self) -> list[str]:
        few, most = min(self.sizes.values()), max(self.sizes.values())
        each = str(few) if few == most else f"{few} to {most}"
        other = [k for k in self.losses if k != self.head]
        chosen = f"{self.head} on {self.net} features"
        if other:
            against = ", ".join(f"{k} {self.losses[k]:.2f}" for k in other)
            chosen += f" (log loss {self.losses[self.head]:.2f} by {self.how}; {against})"
        lines = [
            *self.notes,
            f"{self.photos} photos of {len(self.sizes)} classes, {each} each",
            f"head: {chosen}",
            f"expect {self.expected.sentence}",
            f"about {100 * self.rate:.0f}% of such photos will be called 'none of these'",
        ]
        if self.strangers is not None:
            low, high = (min(max(v, 0.0), 1.0) for v in (self.strangers.low, self.strangers.high))
            lines[-1] += (
                f", and about {100 * self.strangers.value:.0f}% ({100 * low:.0f} to {100 * high:.0f}) of photos of a class it "
                "was never shown (each class left out in turn)"
            )
        return lines

    def _doubts(self) -> list[str]:
        lines = []
        if self.confusions:
            c = self.confusions[0]
            lines.append(
                f"confused most: {c.a} and {c.b} ({c.wrong} of their {c.photos} photos)"
                if c.wrong
                else f"no two classes are confused; the nearest are {c.a} and {c.b}"
            )
        if self.suspects:
            most = max(FEWEST, math.ceil(ALARMS * self.photos))
            lines.append(
                f"{len(self.suspects)} of {self.photos} photos look mislabelled (at most {most} are ever named):"
            )
        lines += few_of(
            "looks mislabelled",
            [f"{s.photo} (looks like {s.looks_like}, {100 * s.probability:.0f}%)" for s in self.suspects],
        )
        across = [c for c in self.copies if c.classes[0] != c.classes[1]]
        lines += few_of(
            "in two classes", [f"{c.first} is {'a' if c.exact else 'nearly a'} copy of {c.second}" for c in across]
        )
        near = [c for c in self.copies if c.classes[0] == c.classes[1] and not c.exact]
        if near:
            lines.append(
                f"{len(near)} pairs of photos of one class are nearly copies ({near[0].first} and {near[0].second}); "
                "expect less of photos taken on another day"
            )
        lines += few_of("left out, one photo makes no class", list(self.alone))
        lines += few_of("left out, a copy", list(self.left_out))
        lines += few_of("left out, unreadable", [f"{name} {reason}" for name, reason in self.unreadable])
        return lines


def few_of(title: str, items: list[str]) -> list[str]:
    lines = [f"{title}: {item}" for item in items[:SHOWN]]
    return lines + ([f"{title}: {len(items) - SHOWN} more"] if len(items) > SHOWN else [])


def from_dict(facts: dict[str, Any]) -> FitReport:
    """The report of a saved model."""
    made = dict(facts)
    made["expected"] = Expected(**made["expected"])
    made["confusions"] = tuple(Confusion(**c) for c in made["confusions"])
    made["suspects"] = tuple(Suspect(**s) for s in made["suspects"])
    made["copies"] = tuple(Copy(**{**c, "classes": tuple(c["classes"])}) for c in made["copies"])
    if (caught := made.get("strangers")) is not None:
        made["strangers"] = Estimate(**caught)
    made["alone"], made["notes"] = tuple(made.get("alone", ())), tuple(made.get("notes", ()))
    made["left_out"] = tuple(made["left_out"])
    made["unreadable"] = tuple((n, r) for n, r in made["unreadable"])
    return FitReport(**made)
