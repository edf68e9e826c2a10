"""Hard how? What a weak and a strong learner score on each data set: the rest is modelling and intrinsic difficulty."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from handful.audits.answers import TaskAnswers, answer
from handful.audits.context import Context, usual_tasks
from handful.audits.drawing import short, stacked
from handful.audits.finding import Diagnosis, Finding, above
from handful.audits.shortcuts import how
from handful.data.collection import Part
from handful.errors import Infeasible
from handful.methods.gradient.r2d2 import R2D2
from handful.methods.metric.nearest_centroid import NearestCentroid
from handful.metrics.base import mean_interval
from handful.metrics.crossed import SAME
from handful.metrics.difficulty import difficulty

PARTS = ("weak learner", "modelling difficulty", "intrinsic difficulty")


class Difficulty(Diagnosis):
    """Normalised accuracies (guessing 0, perfect 1) of class means on 8x8 thumbnails and of ridge regression on features.

    The score of the weak learner, what the strong one adds (modelling difficulty) and what it lacks (intrinsic
    difficulty) make 1 for each data set (metadl, Figure 3). Both answer the same tasks; the worse of the two counts as weak.
    """

    name: ClassVar[str] = "difficulty"
    question: ClassVar[str] = "Is it hard for every learner, or only for a weak one?"
    topic: ClassVar[str] = "difficulty"

    def run(self, context: Context) -> list[Finding]:
        weak: dict[str, TaskAnswers] = {}
        strong: dict[str, TaskAnswers] = {}
        parts = by_dataset(context.part)
        first = usual_tasks(context.view.like(next(iter(parts.values()))))
        strong_one = R2D2(net="pixels", penalty=1.0)
        n = context.paced(lambda n: answer(strong_one, first, n, context.seed), 0.6 / len(parts))[0]
        poor = context.other("thumbnail") if context.images else context.view
        for name, part in parts.items():
            weak[name] = answer(NearestCentroid(), usual_tasks(poor.like(part)), n, context.seed)
            strong[name] = answer(strong_one, usual_tasks(context.view.like(part)), n, context.seed)
            if weak[name].right.mean() > strong[name].right.mean():
                weak[name], strong[name] = strong[name], weak[name]
        table = difficulty(*({k: _normalised(v) for k, v in side.items()} for side in (weak, strong)))
        rows = {r["dataset"]: (r["worst"], r["modelling"], r["intrinsic"]) for r in table.to_dicts()}
        task, x = [
            np.concatenate(v) for v in zip(*(_lacking(a, i) for i, a in enumerate(strong.values())), strict=True)
        ]
        joined = TaskAnswers(
            task,
            np.concatenate([a.image for a in strong.values()]),
            np.concatenate([a.classes + 10**6 * i for i, a in enumerate(strong.values())]),
            task, task, np.ones(len(task)),
        )  # fmt: skip
        value, over_classes = joined.both(x, context.seed)
        means = np.mean(list(rows.values()), axis=0)
        sentence = (
            f"of the way from guessing to perfect a weak learner goes {means[0]:.0%}, a strong one {means[1]:.0%} more, and "
            f"{means[2]:.0%} is left ({how(first)}{f', {len(rows)} data sets' if len(rows) > 1 else ''})"
        )
        if len(rows) > 1:
            hard = max(rows, key=lambda k: rows[k][2])
            sentence += f"; hardest is {short(hard)} with {rows[hard][2]:.0%} left"
        light = "amber" if value.value < 0.03 else above(value.value, 0.7, 0.9)
        return [
            Finding(
                self.name, sentence, value.value, value.low, value.high, value.over,
                "intrinsic difficulty: amber below 3% (nothing left to win) or from 70%, red from 90% (hopeless)", light,
                stacked(rows, PARTS, "% of the way from guessing to perfect"),
                {"by_dataset": table.to_dicts(), "tasks": n}, over_classes=over_classes,
                alt="; ".join(f"{k}: weak {a:.0%}, modelling {b:.0%}, intrinsic {c:.0%}" for k, (a, b, c) in rows.items()) + ".",
            )
        ]  # fmt: skip


def by_dataset(part: Part) -> dict[str, Part]:
    """The part of each data set that can serve tasks."""
    of_class, names = part.datasets
    if len(names) == 1:
        usual_tasks(part)
        return {names[0]: part}
    out = {}
    for i, name in enumerate(names):
        own = part.where(of_class[part.classes] == i, name)
        try:
            usual_tasks(own)
        except Infeasible:
            continue
        out[name] = own
    if not out:
        raise Infeasible("no data set has two classes with three images each")
    return out


def _normalised(found: TaskAnswers) -> float:
    chance = 1 / found.ways
    return mean_interval(((found.right - chance) / (1 - chance)), SAME).value


def _lacking(found: TaskAnswers, number: int) -> tuple[np.ndarray, np.ndarray]:
    chance = 1 / found.ways
    return found.task + 10**6 * number, 1 - (found.right - chance) / (1 - chance)
