"""The settings of the demo, in order, and the audit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from handful.audits.audit import Audit, audit
from handful.data.world import world
from handful.demo.beyond import beyond
from handful.demo.clustering import clustering
from handful.demo.context import context
from handful.demo.few_shot import few_shot
from handful.demo.pairs import pairs
from handful.demo.part import DemoPart
from handful.demo.zero_shot import zero_shot

SETTINGS: dict[str, Callable[[int, int], DemoPart]] = {
    "few-shot, any way and any shot": few_shot,
    "under spurious correlation": context,
    "without labels": clustering,
    "pairs never seen together": pairs,
    "from descriptions alone": zero_shot,
    "beyond accuracy": beyond,
}
AUDIT = "audit of a benchmark"
AUDIT_MINUTES = 1 / 3
PLANTED = "The faults below are planted: this world was drawn with copies and few pairs, so that the audit has something to find."


def run_part(options: tuple[int, int, Path], name: str) -> tuple[str, DemoPart | None]:
    """One setting by name, or the audit, as a worker process calls it."""
    seed, steps, out = options
    if name == AUDIT:
        audited(seed).save(out / "audit.html")
        return name, None
    return name, SETTINGS[name](seed, steps)


def audited(seed: int) -> Audit:
    """Pairs of colour and glyph with planted copies: a world of which every setting's diagnoses have something to say."""
    source = world(label=("colour", "glyph"), mask=0.3, images=20, duplicates=0.05, seed=seed)
    found = audit(source, seed=seed, minutes=AUDIT_MINUTES)
    found.notes.insert(0, PLANTED)
    return found
