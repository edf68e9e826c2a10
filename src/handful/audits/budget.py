"""The score budget: how much of a score is guessing, needs no labels, comes from the context, the nearest class or copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from handful.audits.answers import Answers, answer
from handful.audits.context import Context
from handful.audits.context_gap import context_numbers, context_votes
from handful.audits.cscc import unlabelled
from handful.audits.drawing import waterfall
from handful.audits.duplicates import copy_groups
from handful.audits.finding import Diagnosis, Finding, below
from handful.audits.shapley import shapley
from handful.audits.shortcuts import how
from handful.audits.similarity import ContextProbe
from handful.errors import HandfulError
from handful.methods.metric.nearest_centroid import NearestCentroid
from handful.metrics.base import Estimate
from handful.tasks.rule import Rule

CHANCE, REST = "guessing", "the remainder"
NO_LABELS, CONTEXT, NEAREST, COPIES = "needs no labels", "the context", "the nearest class", "copies in the support"


@dataclass(frozen=True, eq=False)
class ScoreBudget:
    """Shares of a score that add up to it, one entry an answer.

    ``shares`` is ordered: guessing, each source, the remainder; ``missing`` says why a source was left out.
    """

    answers: Answers
    shares: dict[str, np.ndarray]
    missing: dict[str, str]

    def estimates(self, seed: int = 0) -> dict[str, tuple[Estimate, Estimate]]:
        """Each share for new tasks and for new classes."""
        return {name: self.answers.both(values, seed) for name, values in self.shares.items()}


def score_budget(method: Answers, sources: dict[str, Answers], missing: dict[str, str] | None = None) -> ScoreBudget:
    """Split a method's answers among sources of less than it sees, all on the same tasks.

    The worth of a set of sources is the accuracy of a reader who has these alone: every source votes for its answer
    with the log-odds of its own accuracy (none where it cannot tell, or is no better than guessing), the most votes
    win, ties are shared. The worth of none is guessing; a source's share is its mean addition over all orders; the
    remainder is what the method has beyond them all, below zero where they beat it.
    """
    ways, truth = method.ways, method.truth
    most = int(ways.max())
    rows = np.arange(len(truth))
    open_ = np.arange(most)[None, :] < ways[:, None]
    votes = {}
    for name, found in sources.items():
        told = found.given >= 0
        right = float(found.right[told].mean()) if told.any() else 0.0
        guess = float((1 / ways).mean())
        right = min(right, 1 - 1e-6)
        weight = np.log(right * (1 - guess) / ((1 - right) * guess)) if right > guess else 0.0
        table = np.zeros((len(truth), most))
        table[rows[told], found.given[told]] = weight
        votes[name] = table

    def worth(some: frozenset[str]) -> np.ndarray:
        total = np.where(open_, sum((votes[s] for s in sources if s in some), np.zeros((len(truth), most))), -np.inf)
        top = np.isclose(total, total.max(1, keepdims=True), rtol=0, atol=1e-9)
        return top[rows, truth] / top.sum(1)

    shares = shapley(worth, list(sources))
    rest = method.right - worth(frozenset(sources))
    return ScoreBudget(method, {CHANCE: 1 / ways, **shares, REST: rest}, dict(missing or {}))


class Budget(Diagnosis):
    """One waterfall from guessing to the score of class means on frozen features."""

    name: ClassVar[str] = "budget"
    question: ClassVar[str] = "What is the score made of?"
    topic: ClassVar[str] = "budget"
    cost: ClassVar[float] = 1.2

    def look(self, context: Context) -> list[Finding]:
        rule, seed = context.tasks(), context.seed
        n = unlabelled(context)[0]
        method = answer(NearestCentroid(), rule, n, seed)
        sources: dict[str, Answers] = {}
        missing: dict[str, str] = {}
        for name, source in SOURCES.items():
            try:
                sources[name] = source(context, rule, n)
            except HandfulError as error:
                missing[name] = str(error)
        budget = score_budget(method, sources, missing)
        parts = budget.estimates(seed)
        total = method.both(seed=seed)[0]
        rest, wide = parts[REST]
        said = ", ".join(f"{name} {100 * e.value:+.1f}" for name, (e, _) in parts.items() if name not in (CHANCE, REST))
        sentence = (
            f"{100 * rest.value:.1f} of {100 * total.value:.1f} points remain for the method ({how(rule)}), guessing gives "
            f"{100 * parts[CHANCE][0].value:.1f}, {said or 'no other source could be measured'}"
        )
        if missing:
            sentence += "; left out: " + ", ".join(missing)
        share = rest.value / max(total.value - method.chance, 1e-9)
        light = "grey" if total.low <= method.chance else below(share, 0.5, 0.2)
        details = {
            "score": total.as_dict(),
            "parts": {name: {"tasks": a.as_dict(), "classes": b.as_dict()} for name, (a, b) in parts.items()},
            "missing": missing,
            "remaining_share": share,
        }
        return [
            Finding(
                self.name, sentence, rest.value, rest.low, rest.high, rest.over,
                "share of the lead over guessing that remains: green from 50%, red below 20%", light,
                waterfall({name: e for name, (e, _) in parts.items()}, total), details, wide=wide,
                alt="Waterfall: " + ", ".join(f"{name} {100 * e.value:+.1f}" for name, (e, _) in parts.items())
                + f"; together {100 * total.value:.1f}%.",
            )
        ]  # fmt: skip


def without_labels(context: Context, rule: Rule, n: int) -> Answers:
    """Sinkhorn K-means of the support, its clusters named by the labels afterwards."""
    return unlabelled(context)[1]


def by_context(context: Context, rule: Rule, n: int) -> Answers:
    """The class that has most of its support in the query's context."""
    from handful.errors import Infeasible

    if lacking := ContextProbe().missing(context.collection):
        raise Infeasible(lacking)
    return context_votes(rule, context_numbers(context), n, context.seed)


def by_nearest_class(context: Context, rule: Rule, n: int) -> Answers:
    """Every image known only by the training class whose mean is nearest: the support votes as it does for contexts."""
    from handful.errors import Infeasible

    train = context.train
    if train is None or train.n_classes < 2:
        raise Infeasible("there are no training classes apart from those audited")
    new = int((context.view._place[train.rows] < 0).sum())
    if new / context.rate > max(context.seconds, 0.15 * context.budget):
        raise Infeasible(f"the time does not allow to embed {new:,} training images")
    x = context.view.read(train.rows)
    means = np.zeros((train.n_classes, x.shape[1]))
    np.add.at(means, train.classes, x)
    means /= np.bincount(train.classes)[:, None]
    codes = np.full(len(context.collection), -1, dtype=np.int64)
    asked = [np.concatenate([e.support, e.query]) for e in rule.draw_block(context.seed, 0, n)]
    rows = np.unique(np.concatenate(asked))
    for start in range(0, len(rows), 2048):
        some = rows[start : start + 2048]
        y = context.view.read(some).astype(np.float64)
        codes[some] = (np.square(means).sum(1)[None, :] - 2 * y @ means.T).argmin(1)
    return context_votes(rule, codes, n, context.seed)


def by_copies(context: Context, rule: Rule, n: int) -> Answers:
    """The class of the support image that is a copy, exact or near, of the query."""
    return context_votes(rule, copy_groups(context), n, context.seed)


SOURCES = {NO_LABELS: without_labels, CONTEXT: by_context, NEAREST: by_nearest_class, COPIES: by_copies}
