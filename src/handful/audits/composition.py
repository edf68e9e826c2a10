"""Is composition needed, and does it work? Seen against unseen pairs of the same primitives."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from handful.audits.answers import TaskAnswers, collect
from handful.audits.context import Context, fewer
from handful.audits.drawing import across
from handful.audits.finding import Diagnosis, Finding, above
from handful.data.collection import Collection, Part
from handful.errors import Infeasible
from handful.methods.compositional.lifted import PairProtoNet
from handful.methods.embedded import EmbeddedLearner
from handful.metrics.base import mean_interval
from handful.metrics.crossed import SAME, task_means
from handful.runs.answering import answers_to
from handful.tasks.pairs import Pairs


class Composition(Diagnosis):
    """Accuracy of two parallel class-mean classifiers on seen and on unseen pairs, each asked over all N x N pairs."""

    name: ClassVar[str] = "composition"
    question: ClassVar[str] = "What do unseen pairs cost?"
    topic: ClassVar[str] = "composition"

    def missing(self, collection: Collection) -> str:
        n = len(collection.card.labels)
        return (
            ""
            if n == 2
            else f"the class is {'one label column' if n == 1 else f'{n} label columns'}, not a pair of two"
        )

    def run(self, context: Context) -> list[Finding]:
        part = context.whole_part
        if len(part) > len(context.part) and context.rate < 1e5:
            part = pair_pool(part, len(context.part), context.seed)
        rule = feasible(context.view.like(part))
        learner = PairProtoNet(net="pixels").untrained(rule.image_shape)
        n, (found, known, shares) = context.paced(lambda n: asked(rule, learner, n, context.seed), 0.8)
        a, b = (task_means(np.where(k, found.right, np.nan)[k], found.task[k]) for k in (known, ~known))
        gap = mean_interval(a - b, SAME)
        balance = np.bincount(found.task)[found.task] / np.where(
            known, np.bincount(found.task[known])[found.task], np.bincount(found.task[~known])[found.task]
        )
        over_classes = found.both(np.where(known, 1.0, -1.0) * balance * found.right, context.seed)[1]
        grid = rule.grid
        filled = len(grid.pairs) / (grid.shape[0] * grid.shape[1])
        chance = found.chance
        bars = {"seen pairs": mean_interval(a, SAME), "unseen pairs": mean_interval(b, SAME)}
        sentence = (
            f"unseen pairs cost {100 * gap.value:.1f} points ({100 * a.mean():.1f}% on seen, {100 * b.mean():.1f}% on unseen, "
            f"of {rule.primitives} x {rule.primitives}); {filled:.0%} of all pairs exist, and {np.mean(shares):.0%} of a task's are unseen"
        )
        details = {
            "seen": bars["seen pairs"].as_dict(),
            "unseen": bars["unseen pairs"].as_dict(),
            "filled": filled,
            "unseen_share": float(np.mean(shares)),
            "primitives": rule.primitives,
            "chance": chance,
            "tasks": n,
        }
        light = "grey" if bars["seen pairs"].low <= chance else above(gap.value, 0.03, 0.1)
        return [
            Finding(
                self.name, sentence, gap.value, gap.low, gap.high, SAME,
                "red from 10 points, amber from 3; not judged where seen pairs are no better than guessing", light,
                across(bars, chance), details, over_classes=over_classes,
                alt=f"Two bars: seen pairs {100 * a.mean():.1f}%, unseen pairs {100 * b.mean():.1f}%; guessing {100 * chance:.0f}%.",
            )
        ]  # fmt: skip


def asked(rule: Pairs, learner: EmbeddedLearner, n: int, seed: int) -> tuple[TaskAnswers, np.ndarray, list[float]]:
    """Answers to n pair tasks, which of them are about seen pairs, and each task's share of unseen pairs."""
    found = list(answers_to(learner, rule, n, seed))
    seen = [a.episode.seen[a.episode.query_labels] for a in found if a.episode.seen is not None]
    sides = [a.episode.side for a in found]
    shares = [side["unseen_pairs"] / (side["seen_pairs"] + side["unseen_pairs"]) for side in sides]
    return collect(rule, found), np.concatenate(seen), shares


def feasible(part: Part) -> Pairs:
    """Tasks of 5 x 5 primitives with 5 + 5 images per pair, or the nearest that the part can serve."""
    reason = ""
    for primitives in (5, 4, 3, 2):
        for shots, queries in ((5, 5), (2, 3), (1, 1)):
            rule = Pairs(part, primitives, shots, queries)
            try:
                rule.check()
            except Infeasible as error:
                reason = reason or str(error)
                continue
            return rule
    raise Infeasible(reason)


def pair_pool(part: Part, room: int, seed: int) -> Part:
    """Fewer images of all pairs, since whole pairs left out would leave too few that share primitives."""
    each = max(10, room // max(part.n_classes, 1))
    rng = np.random.default_rng([seed, 0x9A12])
    rows = [rng.permutation(part.members[c])[:each] for c in range(part.n_classes)]
    chosen = np.sort(np.concatenate(rows))
    if len(chosen) > 4 * room:
        return fewer(part, room, seed)
    return Part(part.collection, part.scheme, f"{part.split}[{len(chosen)} images of pairs]", chosen)
