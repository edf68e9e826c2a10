"""What a diagnosis is, and what it finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from handful.data.collection import Collection

Light = Literal["green", "amber", "red", "grey"]


@dataclass(frozen=True)
class Finding:
    """A sentence with a number, its interval, a traffic light with the threshold it stands for, and perhaps a figure (SVG)."""

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

    def as_dict(self) -> dict[str, Any]:
        keys = ("diagnosis", "sentence", "value", "low", "high", "over", "threshold", "light")
        return {**{k: getattr(self, k) for k in keys}, "details": self.details or {}}


class Diagnosis:
    """Base of the diagnoses: one file each, registered by name.

    ``question`` is what a person asks; ``missing`` says in words what the collection lacks for it (empty: it can run);
    ``run`` answers within a budget of seconds.
    """

    name: ClassVar[str] = ""
    question: ClassVar[str] = ""

    def missing(self, collection: Collection) -> str:
        return ""

    def run(self, collection: Collection, *, net: str, seed: int, seconds: float) -> list[Finding]:
        raise NotImplementedError
