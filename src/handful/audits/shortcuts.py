"""How far one gets without looking at the thing: from borders alone, colours alone, thumbnails alone."""

from __future__ import annotations

from typing import ClassVar

from handful.audits.answers import TaskAnswers, answer
from handful.audits.context import Context, fewer
from handful.audits.drawing import across
from handful.audits.finding import Diagnosis, Finding, Light, above
from handful.data.collection import Collection
from handful.methods.metric.nearest_centroid import NearestCentroid

VIEWS = {"border": "borders alone", "colour": "colour histogram alone", "thumbnail": "8x8 thumbnail alone"}
GREY: Light = "grey"
AMBER, RED = 0.5, 0.8
HARDLY = 0.05
"""A lead over guessing below this share of all there is to gain is no ground to divide by."""
THRESHOLD = f"share of the whole image's lead over guessing: red from {RED}, amber from {AMBER}"


class Shortcuts(Diagnosis):
    """Few-shot accuracy of class means on three poor views of the images against the same on the whole image.

    Borders are seen by the audit's net, with the middle painted over; colours and thumbnails as they are. The tasks are
    the same, so that the shares are paired.
    """

    name: ClassVar[str] = "shortcuts"
    question: ClassVar[str] = "How far does one get from borders, colours or thumbnails alone?"
    topic: ClassVar[str] = "background"
    cost: ClassVar[float] = 2.0

    def missing(self, collection: Collection) -> str:
        return "" if collection.card.kind == "images" else "the collection holds features, not images"

    def run(self, context: Context) -> list[Finding]:
        room = max(200, int(context.rate * 0.5 * context.seconds))
        part = fewer(context.part, room, context.seed)
        rule = context.tasks(part=part)
        n, whole = context.paced(lambda n: answer(NearestCentroid(), rule, n, context.seed), 0.1)
        seen: dict[str, TaskAnswers] = {
            name: answer(NearestCentroid(), context.tasks(context.other(name), part), n, context.seed) for name in VIEWS
        }
        shares = {name: found.share(whole, context.seed) for name, found in seen.items()}
        total = whole.both(seed=context.seed)[0]
        if total.low <= whole.chance or total.value - whole.chance < HARDLY * (1 - whole.chance):
            best, light = max(VIEWS, key=lambda v: seen[v].tasks.mean()), GREY
            words = f"the whole image is hardly better than guessing ({100 * total.value:.1f}% by class means), so no share of its lead can be told"
        else:
            best = max(VIEWS, key=lambda v: shares[v][0].value)
            light = above(shares[best][0].value, AMBER, RED)
            words = (
                f"{VIEWS[best]} {'reach' if best == 'border' else 'reaches'} {shares[best][0].value:.0%} of the whole image's "
                f"lead over guessing ({100 * seen[best].tasks.mean():.1f}% against {100 * total.value:.1f}%)"
            )
        rest = ", ".join(f"{VIEWS[v]} {100 * seen[v].tasks.mean():.1f}%" for v in VIEWS if v != best)
        value, over_classes = shares[best]
        bars = {"whole image": total, **{VIEWS[v]: seen[v].both(seed=context.seed)[0] for v in VIEWS}}
        details = {
            "whole": total.as_dict(),
            "chance": whole.chance,
            "tasks": n,
            **{v: {"accuracy": bars[VIEWS[v]].as_dict(), "share": shares[v][0].as_dict()} for v in VIEWS},
        }
        alt = "Bars of accuracy: " + ", ".join(f"{k} {100 * e.value:.1f}%" for k, e in bars.items())
        return [
            Finding(
                self.name, f"{words}; {rest}; {how(rule)}", value.value, value.low, value.high, value.over, THRESHOLD, light,
                across(bars, whole.chance), details, alt=f"{alt}; guessing {100 * whole.chance:.0f}%.", over_classes=over_classes,
            )
        ]  # fmt: skip


def how(rule: object) -> str:
    """The shape of a rule's tasks in words."""
    ways, shots = getattr(rule, "ways", None), getattr(rule, "shots", None)
    return f"{ways}-way {shots}-shot" if isinstance(ways, int) and isinstance(shots, int) else getattr(rule, "name", "")
