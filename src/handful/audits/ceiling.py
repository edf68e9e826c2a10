"""What the same features reach with all labels: the ceiling under which few-shot scores live."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np

from handful.audits.answers import answer
from handful.audits.context import Context
from handful.audits.drawing import across
from handful.audits.finding import Diagnosis, Finding, below
from handful.audits.shortcuts import how
from handful.audits.similarity import principal
from handful.audits.zero_shot.visual import ceiling
from handful.errors import Infeasible
from handful.methods.metric.nearest_centroid import NearestCentroid
from handful.metrics.base import mean_interval
from handful.metrics.crossed import SAME, crossed_bootstrap
from handful.progress import bar

DRAWS, EACH, FOLDS = 30, 40, 4


class SupervisedCeiling(Diagnosis):
    """Cross-validated softmax regression on all images of as many classes as a task has, against the few-shot score."""

    name: ClassVar[str] = "ceiling"
    question: ClassVar[str] = "How far could one get with all labels?"
    topic: ClassVar[str] = "difficulty"

    def look(self, context: Context) -> list[Finding]:
        rule = context.tasks()
        part, ways = rule.part, getattr(rule, "ways", 5)
        classes = np.flatnonzero(part.members.sizes >= 2 * FOLDS)
        if len(classes) < ways:
            raise Infeasible(
                f"fewer than {ways} classes have the {2 * FOLDS} images that a cross-validated probe needs"
            )
        rng = np.random.default_rng([context.seed, 0xCE12])
        task, right, label, image = [], [], [], []
        end = time.monotonic() + 0.7 * context.seconds
        with bar("supervised ceiling", DRAWS) as advance:
            for draw in range(DRAWS):
                chosen = rng.permutation(classes)[:ways]
                rows = np.concatenate([rng.permutation(part.members[c])[:EACH] for c in chosen])
                own = np.concatenate([np.full(min(EACH, part.members.sizes[c]), c) for c in chosen])
                names = np.asarray([f"{c:07d}" for c in own])
                order = np.argsort(names, kind="stable")
                x = principal(context.view.read(rows[order]), 100)
                found = ceiling(x, names[order], np.unique(names).tolist(), folds=FOLDS, seed=draw)
                task.append(np.full(len(rows), draw))
                right.append(found.correct.astype(float))
                label.append(own[order])
                image.append(rows[order])
                advance(1)
                if time.monotonic() > end and draw >= 2:
                    break
        number, x = np.concatenate(task), np.concatenate(right)
        value = mean_interval(np.asarray([r.mean() for r in right]), SAME)
        wide = crossed_bootstrap(x, number, np.concatenate(label), np.concatenate(image), seed=context.seed)
        n = context.paced(lambda n: answer(NearestCentroid(), rule, n, context.seed), 0.1)
        few = mean_interval(answer(NearestCentroid(), rule, n, context.seed).tasks, SAME)
        chance = 1 / ways
        lead = (value.value - chance) / (1 - chance)
        sentence = (
            f"with the labels of all images, the same features reach {100 * value.value:.1f}% at {ways} ways; few-shot class "
            f"means reach {100 * few.value:.1f}% ({how(rule)}), {few.value / value.value:.0%} of that"
        )
        bars = {"all labels": value, "few-shot": few}
        return [
            Finding(
                self.name, sentence, value.value, value.low, value.high, SAME,
                "of the way from guessing to perfect: red below 50% (labels or features are in doubt), green from 80%",
                below(lead, 0.8, 0.5), across(bars, chance),
                {"few_shot": few.as_dict(), "draws": len(right), "ways": ways, "chance": chance, "lead": lead}, wide=wide,
                alt=f"Two bars: {100 * value.value:.1f}% with all labels, {100 * few.value:.1f}% few-shot; guessing {100 * chance:.0f}%.",
            )
        ]  # fmt: skip
