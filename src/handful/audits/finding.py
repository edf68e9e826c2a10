"""What a diagnosis is, and what it finds."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from handful.data.collection import Collection
from handful.metrics.base import Estimate

if TYPE_CHECKING:
    from handful.audits.context import Context

Light = Literal["green", "amber", "red", "grey"]
TOPICS = {
    "labels": "Do you need the labels?",
    "background": "Does the background give it away?",
    "composition": "Is composition needed?",
    "difficulty": "How hard, and hard how?",
    "clean": "Is it clean?",
    "power": "Can it tell methods apart?",
    "score": "What is the score made of?",
}
"""The questions of a page, in its order; every diagnosis belongs to one."""


@dataclass(frozen=True)
class Finding:
    """A sentence with a number, its interval, a traffic light with the threshold it stands for, and a figure (SVG).

    ``over`` says what the interval ``low`` to ``high`` covers; ``over_classes`` is a second one (for new classes, where the first
    is for new tasks from the same classes). ``alt`` is the figure in words.
    """

    diagnosis: str
    sentence: str
    value: float
    low: float
    high: float
    over: str
    threshold: str
    light: Light
    figure: str = ""
    details: dict[str, Any] | None = None
    name: str = ""
    alt: str = ""
    over_classes: Estimate | None = None

    def as_dict(self) -> dict[str, Any]:
        keys = ("diagnosis", "sentence", "over", "threshold", "light", "alt")
        out: dict[str, Any] = {k: getattr(self, k) for k in keys}
        out["name"] = self.name or self.diagnosis
        out |= {k: plain(getattr(self, k)) for k in ("value", "low", "high")}
        out["over_classes"] = (
            None if self.over_classes is None else {k: plain(v) for k, v in self.over_classes.as_dict().items()}
        )
        return {**out, "details": plain(self.details or {})}


def plain(value: Any) -> Any:
    """A value for JSON, which has neither NaN nor infinity."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        value = value.item()
    return None if isinstance(value, float) and not isfinite(value) else value


def first_clause(sentence: str) -> str:
    """The sentence up to its first semicolon that no bracket encloses, with a capital."""
    depth, end = 0, len(sentence)
    for i, letter in enumerate(sentence):
        depth += (letter == "(") - (letter == ")")
        if letter == ";" and depth == 0:
            end = i
            break
    return sentence[:1].upper() + sentence[1:end]


def above(value: float, amber: float, red: float) -> Light:
    """Green below ``amber``, red from ``red`` on; grey where there is no number."""
    if not isfinite(value):
        return "grey"
    return "red" if value >= red else "amber" if value >= amber else "green"


def below(value: float, amber: float, red: float) -> Light:
    """Green from ``amber`` on, red below ``red``; grey where there is no number."""
    if not isfinite(value):
        return "grey"
    return "red" if value < red else "amber" if value < amber else "green"


class Diagnosis:
    """Base of the diagnoses: one file each, registered by name.

    ``question`` is what a person asks and ``topic`` the part of the page where it is answered; ``cost`` is its share of
    the time, relative to the others. ``missing`` says in words what the collection lacks (empty: it can run); ``run``
    answers within ``context.seconds``.
    """

    name: ClassVar[str] = ""
    question: ClassVar[str] = ""
    topic: ClassVar[str] = "clean"
    cost: ClassVar[float] = 1.0

    def missing(self, collection: Collection) -> str:
        return ""

    def run(self, context: Context) -> list[Finding]:
        raise NotImplementedError

    def alone(
        self, collection: Collection, *, net: str = "pixels", seed: int = 0, seconds: float = 60.0
    ) -> list[Finding]:
        """This diagnosis alone, outside an audit."""
        from handful.audits.context import Context

        context = Context(collection, net=net, seed=seed, budget=seconds, seconds=seconds)
        with context.pinned():
            return self.run(context)
