"""Can it tell methods apart? The smallest difference that the planned tasks can show, and the tasks that one point needs."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from handful.audits.answers import TaskAnswers, answer
from handful.audits.context import Context
from handful.audits.drawing import falling
from handful.audits.finding import Diagnosis, Finding, above
from handful.audits.shortcuts import how
from handful.methods.gradient.r2d2 import R2D2
from handful.methods.metric.nearest_centroid import NearestCentroid
from handful.metrics.base import TAILS
from handful.metrics.power import smallest_difference, tasks_needed

POINT = 0.01


class Power(Diagnosis):
    """The paired t-test's power, from the spread of the differences of two good learners on the same tasks."""

    name: ClassVar[str] = "power"
    question: ClassVar[str] = "How small a difference can the planned tasks show?"
    topic: ClassVar[str] = "power"

    def run(self, context: Context) -> list[Finding]:
        rule = context.tasks()
        n, b = context.paced(lambda n: answer(R2D2(net="pixels", penalty=1.0), rule, n, context.seed), 0.6)
        a = answer(NearestCentroid(), rule, n, context.seed)
        d = a.tasks - b.tasks
        spread = float(d.std(ddof=1))
        value = smallest_difference(spread, context.planned)
        low, high = resampled(d, context.planned, context.seed)
        needed = tasks_needed(spread, POINT) if spread else 2
        over_classes = TaskAnswers(a.task, a.image, a.classes, a.truth, a.given, a.ways).both(
            a.right - b.right, context.seed
        )[1]
        half = over_classes.half if np.isfinite(over_classes.half) else float("nan")
        sentence = (
            f"{context.planned:,} tasks show a difference of {100 * value:.2f} points between two methods on the same tasks (80% "
            f"power, 5% level); one point needs {needed:,} tasks ({how(rule)})"
        )
        if np.isfinite(half):
            sentence += f"; to hold for new classes as well, a difference must exceed about {100 * half:.1f} points"
        planned = np.unique(np.round(np.geomspace(20, max(10_000, 2 * context.planned), 40)).astype(int))
        figure = falling(
            [(float(t), 100 * smallest_difference(spread, int(t))) for t in planned] if spread else [(20, 0.01), (1e4, 0.01)],
            (float(context.planned), max(100 * value, 0.01)), "tasks", "smallest difference (points)", 1.0,
        )  # fmt: skip
        return [
            Finding(
                self.name, sentence, value, low, high, "new tasks from the same classes",
                "red from 2 points, amber from 1", above(value, 0.01, 0.02), figure,
                {"spread": spread, "planned": context.planned, "needed_for_a_point": needed, "classes_half": half, "measured_on": n},
                alt=f"The smallest difference falls with the square root of the tasks: {100 * value:.2f} points at {context.planned:,}.",
            )
        ]  # fmt: skip


def resampled(differences: np.ndarray, planned: int, seed: int, draws: int = 1000) -> tuple[float, float]:
    """2.5% to 97.5% of the smallest difference over tasks drawn again: it is proportional to their spread."""
    rng = np.random.default_rng([seed, 0x90E4])
    spread = differences[rng.integers(0, len(differences), (draws, len(differences)))].std(axis=1, ddof=1)
    low, high = np.quantile(spread, TAILS)
    return smallest_difference(float(low), planned), smallest_difference(float(high), planned)
