"""What contexts do to a score: how far the context alone gets, what new contexts cost, and the worst context."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
import polars as pl

from handful.audits.answers import TaskAnswers, answer, class_numbers
from handful.audits.context import Context
from handful.audits.drawing import across
from handful.audits.finding import Diagnosis, Finding, above
from handful.audits.probe import ContextProbe
from handful.audits.shortcuts import how
from handful.data.collection import Collection, Part
from handful.errors import Infeasible
from handful.methods.metric.nearest_centroid import NearestCentroid
from handful.metrics.base import Estimate, mean_interval
from handful.metrics.context import by_context
from handful.metrics.crossed import SAME
from handful.runs.evaluate import evaluate
from handful.tasks.context import IID, OOD
from handful.tasks.rule import Rule

SMALLEST = 5
"""Tasks in which a context must be asked about to be called the worst."""


def context_votes(rule: Rule, contexts: np.ndarray, n: int, seed: int) -> TaskAnswers:
    """Answers of a reader who sees contexts only: the class that has most of its support in the query's context.

    ``contexts`` is a number an image of the collection. Where several classes lead, or none has support in the context,
    the answer is -1: the reader cannot tell.
    """
    columns: list[list[np.ndarray]] = [[], [], [], [], []]
    for e in rule.draw_block(seed, 0, n):
        values, own = np.unique(contexts[e.support], return_inverse=True)
        table = np.zeros((len(values) + 1, e.n_classes))
        np.add.at(table, (own.reshape(-1), e.support_labels), 1)
        at = np.searchsorted(values, contexts[e.query])
        known = (at < len(values)) & (values[np.minimum(at, len(values) - 1)] == contexts[e.query])
        votes = table[np.where(known, at, len(values))]
        top = votes.max(1)
        given = np.where((votes == top[:, None]).sum(1) == 1, votes.argmax(1), -1)
        row = (np.full(len(e.query), e.number), e.query, e.query_labels, given, np.full(len(e.query), e.n_classes))
        for column, values_ in zip(columns, row, strict=True):
            column.append(values_)
    task, image, truth, given, ways = (np.concatenate(c) for c in columns)
    return TaskAnswers(task, image, class_numbers(rule, image), truth, given, ways)


def context_numbers(context: Context) -> np.ndarray:
    """A number an image of the collection for its context; images without one share a number."""
    column = context.collection.table[str(context.collection.card.context)].cast(pl.String).fill_null("(none)")
    return np.unique(column.to_numpy(), return_inverse=True)[1].reshape(-1)


def guessed(found: TaskAnswers) -> np.ndarray:
    """Right, wrong, or one over the ways where the reader cannot tell."""
    return np.where(found.given < 0, 1 / found.ways, found.right)


class ContextAlone(Diagnosis):
    """Accuracy on the usual tasks of a reader who is told contexts and no images."""

    name: ClassVar[str] = "context-alone"
    question: ClassVar[str] = "Does the context tell the class?"
    topic: ClassVar[str] = "background"
    cost: ClassVar[float] = 0.3

    def missing(self, collection: Collection) -> str:
        return ContextProbe().missing(collection)

    def run(self, context: Context) -> list[Finding]:
        rule = context.tasks()
        n = 200 if context.seconds < 5 else 400
        found = context_votes(rule, context_numbers(context), n, context.seed)
        right = guessed(found)
        value, over_classes = found.both(right, context.seed)
        chance = found.chance
        lead = (value.value - chance) / (1 - chance)
        sentence = (
            f"from the contexts of support and query alone, without any image, {100 * value.value:.1f}% are right "
            f"({lead:.0%} of the way from guessing to perfect; {how(rule)})"
        )
        return [
            Finding(
                self.name, sentence, value.value, value.low, value.high, value.over,
                "of the way from guessing to perfect: red from 30%, amber from 10%", above(lead, 0.1, 0.3),
                across({"context alone": value}, chance), {"chance": chance, "lead": lead, "tasks": n}, over_classes=over_classes,
                alt=f"One bar: {100 * value.value:.1f}% from the context alone; guessing {100 * chance:.0f}%.",
            )
        ]  # fmt: skip


class ContextGap(Diagnosis):
    """IID minus OOD accuracy with the same classes and support, and the context where accuracy is lowest."""

    name: ClassVar[str] = "context-gap"
    question: ClassVar[str] = "What do new contexts cost?"
    topic: ClassVar[str] = "background"

    def missing(self, collection: Collection) -> str:
        return ContextProbe().missing(collection)

    def run(self, context: Context) -> list[Finding]:
        rules = shifted(context.view.like(context.part))
        seed = context.seed
        n, iid = context.paced(lambda n: answer(NearestCentroid(), rules[0], n, seed), 0.25)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ood = answer(NearestCentroid(), rules[1], n, seed)
            frame = evaluate(NearestCentroid().untrained(rules[0].image_shape), context.tasks(), n, seed).frame
        both = np.concatenate([iid.right, -ood.right]) * 2
        task, classes = np.concatenate([iid.task, ood.task]), np.concatenate([iid.classes, ood.classes])
        gap = mean_interval(iid.tasks - ood.tasks, SAME)
        joined = TaskAnswers(task, np.concatenate([iid.image, ood.image]), classes, task, task, np.ones(len(task)))
        over_classes = joined.both(both, seed)[1]
        bars: dict[str, Estimate] = {"same contexts (IID)": iid.both()[0], "new contexts (OOD)": ood.both()[0]}
        table = by_context(frame).filter(pl.col("tasks") >= SMALLEST)
        worst = table.row(0, named=True) if table.height else None
        details: dict[str, Any] = {
            "iid": bars["same contexts (IID)"].as_dict(),
            "ood": bars["new contexts (OOD)"].as_dict(),
        }
        sentence = (
            f"queries in contexts that no support shows cost {100 * gap.value:.1f} points "
            f"({100 * iid.tasks.mean():.1f}% to {100 * ood.tasks.mean():.1f}%; {how(rules[0])})"
        )
        if worst is not None:
            bars["worst context"] = Estimate(worst["value"], worst["low"], worst["high"], SAME, worst["tasks"])
            overall = float(frame["accuracy"].mean())  # type: ignore[arg-type]
            sentence += f"; in usual tasks the worst context is {worst['context']!r} at {100 * worst['value']:.1f}% of {100 * overall:.1f}%"
            details |= {"by_context": table.to_dicts(), "usual": overall}
        alt = "Bars of accuracy: " + ", ".join(f"{k} {100 * e.value:.1f}%" for k, e in bars.items()) + "."
        return [
            Finding(
                self.name, sentence, gap.value, gap.low, gap.high, gap.over, "red from 10 points, amber from 3",
                above(gap.value, 0.03, 0.1), across(bars, iid.chance), details, alt=alt, over_classes=over_classes,
            )
        ]  # fmt: skip


def shifted(part: Part) -> tuple[IID, OOD]:
    """IID and OOD tasks as near to 5-way 5-shot with 15 queries as the part can serve."""
    reason = ""
    for ways in (5, 4, 3, 2):
        for shots, queries in ((5, 15), (5, 5), (2, 4), (1, 2)):
            for conflict in (True, False):
                ood = OOD(part, ways, shots, queries, conflict=conflict)
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        ood.check()
                except Infeasible as error:
                    reason = reason or str(error)
                    continue
                return IID(part, ways, shots, queries, conflict=conflict), ood
    raise Infeasible(reason or "no task with new contexts can be drawn")
