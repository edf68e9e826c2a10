"""audit: every diagnosis that a collection allows, within a time budget."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from handful import registry
from handful.audits.finding import Diagnosis, Finding
from handful.data.collection import Collection
from handful.errors import HandfulError


@dataclass
class Audit:
    """Findings on one collection, and why other diagnoses were not run."""

    collection: Collection
    seed: int
    net: str
    findings: list[Finding] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "collection": self.collection.id,
            "seed": self.seed,
            "net": self.net,
            "findings": [f.as_dict() for f in self.findings],
            "left_out": self.left_out,
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        marks = {"green": "ok  ", "amber": "note", "red": "WARN", "grey": "info"}
        lines = [f"audit of {self.collection.id} ({self.net}, seed {self.seed})"]
        lines += [f"  [{marks[f.light]}] {f.diagnosis}: {f.sentence} ({f.threshold})" for f in self.findings]
        lines += [f"  [    ] {name}: not run: {why}" for name, why in self.left_out.items()]
        return "\n".join(lines if len(lines) > 1 else [*lines, "  no diagnosis is registered"])


def audit(
    collection: Collection, *, only: list[str] | None = None, net: str = "pixels", seed: int = 0, minutes: float = 5.0
) -> Audit:
    """Walk the registry of diagnoses over a collection.

    ``only`` names some of them; ``net`` is the backbone for those that need features; ``minutes`` bounds the whole.
    """
    result = Audit(collection, seed, net)
    names = only or registry.names("diagnoses")
    deadline = time.monotonic() + 60 * minutes
    for i, name in enumerate(names):
        diagnosis: Diagnosis = registry.get("diagnoses", name)()
        if lacking := diagnosis.missing(collection):
            result.left_out[name] = lacking
            continue
        left = deadline - time.monotonic()
        if left <= 0:
            result.left_out[name] = f"the budget of {minutes:g} minutes was used up"
            continue
        start = time.monotonic()
        try:
            result.findings += diagnosis.run(collection, net=net, seed=seed, seconds=left / (len(names) - i))
        except HandfulError as error:
            if only:
                raise
            result.left_out[name] = str(error)
        result.seconds[name] = time.monotonic() - start
    return result
