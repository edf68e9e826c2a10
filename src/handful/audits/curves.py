"""How accuracy moves with the number of classes and of examples."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from handful.audits.answers import TaskAnswers, answer
from handful.audits.context import Context
from handful.audits.finding import Diagnosis, Finding, below
from handful.errors import Infeasible
from handful.methods.metric.nearest_centroid import NearestCentroid
from handful.metrics.base import Estimate, mean_interval
from handful.metrics.crossed import SAME
from handful.report.figures import curves
from handful.tasks.nway import NWay

WAYS, SHOTS = (2, 5, 10, 20, 50), (1, 2, 5, 10, 20)


class Curves(Diagnosis):
    """Class means on the audit's features at growing numbers of ways and of shots."""

    name: ClassVar[str] = "curves"
    question: ClassVar[str] = "Do more examples help?"
    topic: ClassVar[str] = "difficulty"

    def run(self, context: Context) -> list[Finding]:
        part = context.view.like(context.part)
        sizes = np.sort(part.members.sizes)[::-1]
        ways = min(5, part.n_classes)
        room = int(sizes[ways - 1]) if ways > 1 else 0
        shots = [s for s in SHOTS if s + 2 <= room]
        if len(shots) < 2:
            raise Infeasible(f"{part.id} has no two classes with four images each, so there is no curve over shots")
        queries = max(1, min(10, room - shots[-1]))
        five, most = min(5, max(shots)), NWay(part, ways, shots[-1], queries)
        n = context.paced(lambda n: answer(NearestCentroid(), most, n, context.seed), 0.1, (50, 100, 200))[0]
        asked = {s: answer(NearestCentroid(), NWay(part, ways, s, queries), n, context.seed) for s in shots}
        able = [w for w in WAYS if w <= part.n_classes and sizes[w - 1] >= five + 2]
        wide_queries = max(1, min(10, int(sizes[max(able) - 1]) - five)) if able else 1
        spread = {w: answer(NearestCentroid(), NWay(part, w, five, wide_queries), n, context.seed) for w in able}
        first, last = asked[shots[0]], asked[shots[-1]]
        gain = mean_interval(last.tasks - first.tasks, SAME)
        details = {
            "shots": {str(k): _facts(v) for k, v in asked.items()},
            "ways": {str(k): _facts(v) for k, v in spread.items()},
        }
        sentence = (
            f"from {shots[0]} to {shots[-1]} examples a class accuracy goes from {100 * first.tasks.mean():.1f}% to "
            f"{100 * last.tasks.mean():.1f}% ({ways} ways)"
        )
        if len(able) > 1:
            a, b = spread[able[0]], spread[able[-1]]
            sentence += f"; from {able[0]} to {able[-1]} ways it goes from {100 * a.tasks.mean():.1f}% to {100 * b.tasks.mean():.1f}% ({five} shots)"
        both = np.concatenate([last.right, -first.right]) * 2
        joined = TaskAnswers(*(np.concatenate([getattr(last, k), getattr(first, k)]) for k in FIELDS))
        figure = curves({"by shots": _points(asked)}, "examples a class", chance=[(s, 100 / ways) for s in shots])
        alt = "Accuracy by examples a class: " + ", ".join(
            f"{s}: {100 * v.tasks.mean():.0f}%" for s, v in asked.items()
        )
        if len(able) > 1:
            figure += curves({"by ways": _points(spread)}, "ways", chance=[(w, 100 / w) for w in able])
            alt += "; by ways: " + ", ".join(f"{w}: {100 * v.tasks.mean():.0f}%" for w, v in spread.items())
        return [
            Finding(
                self.name, sentence, gain.value, gain.low, gain.high, gain.over,
                "gain from most examples: green from 5 points, red below 1", below(gain.value, 0.05, 0.01),
                figure, details, alt=alt + ".", over_classes=joined.both(both, context.seed)[1],
            )
        ]  # fmt: skip


FIELDS = ("task", "image", "classes", "truth", "given", "ways")


def _estimate(found: TaskAnswers) -> Estimate:
    return mean_interval(found.tasks, SAME)


def _facts(found: TaskAnswers) -> dict[str, object]:
    return _estimate(found).as_dict()


def _points(found: dict[int, TaskAnswers]) -> list[tuple[float, float, float, float]]:
    return [(x, 100 * (e := _estimate(a)).value, 100 * e.low, 100 * e.high) for x, a in found.items()]
