"""What the same features reach with all labels: the ceiling under which few-shot scores live."""

from __future__ import annotations

import time
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F

from handful.audits.answers import answer
from handful.audits.context import Context
from handful.audits.drawing import across
from handful.audits.finding import Diagnosis, Finding, below
from handful.audits.shortcuts import how
from handful.errors import Infeasible
from handful.methods.layers.ridge import ridge
from handful.methods.metric.nearest_centroid import NearestCentroid
from handful.metrics.base import mean_interval
from handful.metrics.crossed import SAME, crossed_bootstrap
from handful.progress import bar

DRAWS, EACH, FOLDS = 30, 60, 4
PENALTIES = (0.01, 0.1, 1.0)


class SupervisedCeiling(Diagnosis):
    """Cross-validated ridge regression on all images of as many classes as a task has, against the few-shot score."""

    name: ClassVar[str] = "ceiling"
    question: ClassVar[str] = "How far could one get with all labels?"
    topic: ClassVar[str] = "difficulty"

    def run(self, context: Context) -> list[Finding]:
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
                x, y = context.view.read(rows[order]), np.unique(names[order], return_inverse=True)[1].reshape(-1)
                right.append(cross_validated(x, y, draw))
                task.append(np.full(len(rows), draw))
                label.append(own[order])
                image.append(rows[order])
                advance(1)
                if time.monotonic() > end and draw >= 2:
                    break
        number, x = np.concatenate(task), np.concatenate(right)
        value = mean_interval(np.asarray([r.mean() for r in right]), SAME)
        over_classes = crossed_bootstrap(x, number, np.concatenate(label), np.concatenate(image), seed=context.seed)
        _, asked = context.paced(lambda n: answer(NearestCentroid(), rule, n, context.seed), 0.1)
        few = mean_interval(asked.tasks, SAME)
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
                {"few_shot": few.as_dict(), "draws": len(right), "ways": ways, "chance": chance, "lead": lead}, over_classes=over_classes,
                alt=f"Two bars: {100 * value.value:.1f}% with all labels, {100 * few.value:.1f}% few-shot; guessing {100 * chance:.0f}%.",
            )
        ]  # fmt: skip


def cross_validated(x: np.ndarray, y: np.ndarray, seed: int) -> np.ndarray:
    """Right or wrong for each image by ridge regression on the other folds; of a few penalties the best counts.

    Features are centred and of unit length; an upper bound is wanted, so choosing on the tested folds is no harm.
    """
    rng = np.random.default_rng([seed, 0xF01D])
    fold = np.empty(len(y), dtype=np.int64)
    fold[np.lexsort((rng.random(len(y)), y))] = np.arange(len(y)) % FOLDS
    features = F.normalize(torch.as_tensor(x - x.mean(0, keepdims=True), dtype=torch.float64), dim=-1)
    features = torch.cat([features, torch.ones(len(y), 1, dtype=torch.float64)], 1)
    hot = F.one_hot(torch.as_tensor(y)).double()
    best = np.zeros(len(y))
    for penalty in PENALTIES:
        right = np.zeros(len(y))
        for f in range(FOLDS):
            out = torch.as_tensor(fold == f)
            answers = (features[out] @ ridge(features[~out], hot[~out], penalty)).argmax(1).numpy()
            right[fold == f] = answers == y[fold == f]
        best = right if right.mean() > best.mean() else best
    return best
