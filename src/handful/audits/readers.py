"""Readers of less than the images, who answer the tasks of a split score: without labels, by contexts, nearest classes, copies, whole pairs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from handful.audits.answers import TaskAnswers, answer
from handful.audits.context_gap import context_votes
from handful.audits.cscc import unlabelled
from handful.audits.duplicates import copy_groups, scan_of
from handful.audits.learners import FEW, clusterer, told
from handful.audits.scan import exact_pairs, groups, near_pairs
from handful.audits.tasks import AuditTasks, Setting, gathered, within
from handful.data.collection import Part
from handful.errors import Infeasible
from handful.methods.zero_shot.trivial import Trivial
from handful.metrics.clustering import match
from handful.runs.learners import learner_of
from handful.tasks.clustering import Clustering
from handful.tasks.context import ContextShift
from handful.tasks.episode import Episode
from handful.tasks.nway import NWay
from handful.tasks.rule import Rule
from handful.tasks.zero_shot import ZeroShot

NO_LABELS, CONTEXT, NEAREST = "needs no labels", "the context", "the nearest class"
COPIES, TRAINING_COPIES, WHOLE = "copies in the support", "copies of training images", "seen pairs as wholes"

FEWEST = 10
"""Tasks below which a source is left out rather than the others cut to them."""

Reader = Callable[[AuditTasks, int], TaskAnswers]


# what an image is known by: a number an image of the collection


def context_codes(tasks: AuditTasks) -> np.ndarray:
    """The context of every image."""
    card, rule = tasks.context.collection.card, tasks.rule.of if isinstance(tasks.rule, Clustering) else tasks.rule
    column = rule.context_column if isinstance(rule, ContextShift) else card.context
    if not column or column in card.labels:
        raise Infeasible("the collection has no column of contexts")
    values = tasks.context.collection.table[column].cast(pl.String).fill_null("(none)").to_numpy()
    return np.unique(values, return_inverse=True)[1].reshape(-1)


def nearest_codes(tasks: AuditTasks, n: int) -> tuple[np.ndarray, Part]:
    """The training class whose mean is nearest, for every image that n tasks show or ask for (-1 elsewhere)."""
    context = tasks.context
    train = context.train if tasks.train is None else tasks.train.part
    if train is None or train.n_classes < 2:
        raise Infeasible("there are no training classes apart from those audited")
    train = within(context, train, max(0.5 * context.seconds, 0.1 * context.budget))
    x = context.view.read(train.rows)
    means = np.zeros((train.n_classes, x.shape[1]))
    np.add.at(means, train.classes, x)
    means /= np.bincount(train.classes)[:, None]
    codes = np.full(len(context.collection), -1, dtype=np.int64)
    rows = np.unique(np.concatenate([np.concatenate([e.support, e.query]) for e in tasks.episodes(n)]))
    for start in range(0, len(rows), 2048):
        some = rows[start : start + 2048]
        y = context.view.read(some).astype(np.float64)
        codes[some] = (np.square(means).sum(1)[None, :] - 2 * y @ means.T).argmin(1)
    return codes, train


def copy_codes(tasks: AuditTasks) -> np.ndarray:
    """A number that exact and near copies share."""
    context = tasks.context
    if "copies" in context.kept:
        return copy_groups(context)
    # Neighbours in feature space, which the diagnosis of copies looks for as well, are none of these and take long.
    seen = scan_of(context)
    near = near_pairs(seen, tasks.rule.part.rows, context.seed)[0]
    return groups(len(context.collection), exact_pairs(seen), near)


# how a support answers by such numbers


@dataclass(frozen=True)
class OneAxis(Rule):
    """Pair tasks as tasks of one of their axes."""

    of: Rule = None  # type: ignore[assignment]
    axis: int = 0

    name: ClassVar[str] = "one-axis"

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        return [self._cut(e) for e in self.of.draw_block(seed, start, stop)]

    def _cut(self, e: Episode) -> Episode:
        labels = [np.unravel_index(y, e.shape)[self.axis] for y in (e.support_labels, e.query_labels)]
        own = (e.shape[self.axis],)
        return dataclasses.replace(e, support_labels=labels[0], query_labels=labels[1], shape=own)


def by_codes(tasks: AuditTasks, codes: np.ndarray, n: int) -> TaskAnswers:
    """The class with most of its support under the query's number; of a pair each primitive so; of clusters, see `clustered`."""
    rule, seed = tasks.rule, tasks.context.seed
    if tasks.setting == "clustering":
        return gathered(tasks, ((e, clustered(e, codes)) for e in tasks.episodes(n)))
    if tasks.setting == "few-shot":
        return context_votes(rule, codes, n, seed)
    first, second = (context_votes(OneAxis(rule.part, rule, axis), codes, n, seed) for axis in range(2))
    told = (first.given >= 0) & (second.given >= 0)
    ways = first.ways * second.ways
    labels = np.where(told, first.given * second.ways + second.given, -1)
    truth = first.truth * second.ways + second.truth
    return TaskAnswers(first.task, first.image, first.classes, truth, labels, ways)


def clustered(e: Episode, codes: np.ndarray) -> np.ndarray:
    """Equal numbers are a cluster, named one to one by the support as the scorer does; -1 for a number without a name."""
    values, own = np.unique(codes[e.support], return_inverse=True)
    named = match(e.support_labels, own.reshape(-1), e.n_classes)
    at = np.minimum(np.searchsorted(values, codes[e.query]), len(values) - 1)
    return np.where(values[at] == codes[e.query], named[at], -1)


def without_labels(tasks: AuditTasks, n: int) -> TaskAnswers:
    """Sinkhorn K-means of the support, its clusters named by the labels afterwards."""
    rule, context = tasks.rule, tasks.context
    if getattr(rule, "shots", 0) == 1:
        raise Infeasible(
            "with one image per class every image is a cluster of its own, and naming them is the whole task"
        )
    same = rule.tasks_id(context.seed) == context.tasks().tasks_id(context.seed)
    if same and ("unlabelled" in context.kept or type(rule) is NWay):
        return unlabelled(context)[1]
    # Tasks of many ways can take seconds each, so that the first is asked alone.
    hidden, ladder = Clustering(of=rule), (1, *(t for t in FEW if FEWEST <= t <= n))
    found = context.paced(lambda m: answer(clusterer(), hidden, m, context.seed), 0.4, ladder)
    if found[0] < min(n, FEWEST):
        raise Infeasible(f"the time does not allow to cluster the supports of {FEWEST} tasks")
    return found[1]


def by_context(tasks: AuditTasks, n: int) -> TaskAnswers:
    """Told the contexts of support and query, and shown no image."""
    return by_codes(tasks, context_codes(tasks), n)


def by_nearest_class(tasks: AuditTasks, n: int) -> TaskAnswers:
    """Every image known only by the training class whose mean is nearest."""
    return by_codes(tasks, nearest_codes(tasks, n)[0], n)


def by_copies(tasks: AuditTasks, n: int) -> TaskAnswers:
    """The class of the support image that is a copy, exact or near, of the query."""
    return by_codes(tasks, copy_codes(tasks), n)


def as_wholes(tasks: AuditTasks, n: int) -> TaskAnswers:
    """Each seen pair a class of its own with a mean of its own: nothing is composed, and no unseen pair is ever answered."""
    view = tasks.context.view

    def nearest(e: Episode) -> np.ndarray:
        labels, own = np.unique(e.support_labels, return_inverse=True)
        x, y = view.read(e.support).astype(np.float64), view.read(e.query).astype(np.float64)
        means = np.zeros((len(labels), x.shape[1]))
        np.add.at(means, own.reshape(-1), x)
        means /= np.bincount(own.reshape(-1))[:, None]
        return labels[(np.square(means).sum(1)[None, :] - 2 * y @ means.T).argmin(1)]

    return gathered(tasks, ((e, nearest(e)) for e in tasks.episodes(n)))


# zero-shot: from training classes to candidates


def alike(tasks: AuditTasks, weights: np.ndarray) -> np.ndarray:
    """For each row of weights over the training classes, the candidate that is described most alike; -1 where several are.

    Alike is the cosine of descriptions less the mean training description.
    """
    assert tasks.train is not None and isinstance(tasks.rule, ZeroShot)
    known, offered = (r.descriptions[0].astype(np.float64) for r in (tasks.train, tasks.rule))
    centre = known.mean(0)
    x, y = (
        v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-12)
        for v in (weights @ known - centre, offered - centre)
    )
    cosine = x @ y.T
    best = cosine.max(1, keepdims=True)
    return np.where((cosine >= best - 1e-6).sum(1) == 1, cosine.argmax(1), -1)


def by_training(tasks: AuditTasks, codes: np.ndarray, n: int) -> TaskAnswers:
    """The candidate described most like the training classes that have images under the query's number."""
    assert tasks.train is not None
    part, episodes = tasks.train.part, tasks.episodes(n)
    wanted = np.unique(np.concatenate([codes[e.query] for e in episodes]))
    own = codes[part.rows]
    kept = np.isin(own, wanted)
    values, place = np.unique(own[kept], return_inverse=True)
    if not len(values):
        return gathered(tasks, ((e, np.full(len(e.query), -1)) for e in episodes))
    shares = np.zeros((len(values), part.n_classes))
    np.add.at(shares, (place.reshape(-1), part.classes[kept]), 1)
    labels = alike(tasks, shares / shares.sum(1, keepdims=True))

    def tell(e: Episode) -> np.ndarray:
        at = np.minimum(np.searchsorted(values, codes[e.query]), len(values) - 1)
        return np.where(values[at] == codes[e.query], labels[at], -1)

    return gathered(tasks, ((e, tell(e)) for e in episodes))


def context_described(tasks: AuditTasks, n: int) -> TaskAnswers:
    """Told the contexts of the training images and of the query."""
    return by_training(tasks, context_codes(tasks), n)


def copies_described(tasks: AuditTasks, n: int) -> TaskAnswers:
    """The candidate described most like the class of the training image that is a copy of the query."""
    return by_training(tasks, copy_codes(tasks), n)


def nearest_described(tasks: AuditTasks, n: int) -> TaskAnswers:
    """The trivial solution; without a hierarchy the candidate described most like the training class of the nearest mean."""
    assert tasks.train is not None
    if tasks.train.described.taxonomy is not None:
        learner = learner_of(Trivial(), train=tasks.train, compute=tasks.context.compute)
        return told(tasks, learner, tasks.rule, n)
    codes, train = nearest_codes(tasks, n)
    labels = alike(tasks, np.eye(train.n_classes))
    return gathered(tasks, ((e, labels[codes[e.query]]) for e in tasks.episodes(n)))


READERS: dict[Setting, dict[str, Reader | str]] = {
    "few-shot": {
        NO_LABELS: without_labels,
        CONTEXT: by_context,
        NEAREST: by_nearest_class,
        COPIES: by_copies,
    },
    "clustering": {
        NO_LABELS: "the tasks show no labels, so that the whole of the score needs none",
        CONTEXT: by_context,
        NEAREST: by_nearest_class,
        COPIES: by_copies,
    },
    "pairs": {
        NO_LABELS: "how many pairs a support shows is hidden, so that it cannot be clustered into them",
        WHOLE: as_wholes,
        CONTEXT: by_context,
        NEAREST: by_nearest_class,
        COPIES: by_copies,
    },
    "zero-shot": {
        NO_LABELS: "the tasks show no images that could be clustered",
        CONTEXT: context_described,
        NEAREST: nearest_described,
        TRAINING_COPIES: copies_described,
    },
}
"""By setting and source: who reads it, or why nobody can."""


def seen_side(tasks: AuditTasks, n: int) -> np.ndarray | None:
    """Whether each answer is about what was seen (a pair in the support, a training class); None where all are alike."""
    episodes = tasks.episodes(n)
    if tasks.setting == "pairs":
        return np.concatenate([e.seen[e.query_labels] for e in episodes if e.seen is not None])
    known = np.concatenate([np.full(len(e.query), bool(e.side.get("seen", 0))) for e in episodes])
    return known if tasks.setting == "zero-shot" and known.any() else None
