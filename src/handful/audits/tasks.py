"""Which tasks a split score is about: any rule, narrowed to what the part can serve and the time allows."""

from __future__ import annotations

import dataclasses
import itertools
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from handful import registry
from handful.audits.answers import TaskAnswers
from handful.audits.composition import feasible, pair_pool
from handful.audits.context import POOLS, Context, affordable, fewer, usual_tasks
from handful.data.collection import Part
from handful.data.semantics import Semantics, open_semantics
from handful.errors import BadInput, HandfulError, Infeasible, Missing
from handful.methods.contract import Learner, Method
from handful.runs.learners import chosen
from handful.tasks.clustering import Clustering
from handful.tasks.episode import Episode
from handful.tasks.nway import NWay
from handful.tasks.rule import Rule
from handful.tasks.zero_shot import GeneralisedZeroShot, ZeroShot

Setting = Literal["few-shot", "clustering", "pairs", "zero-shot"]
SHAPES = ((5, 15), (5, 5), (2, 4), (2, 2), (1, 2), (1, 1))
"""Shots and queries that are tried, the largest first."""
BLOCK = 256
"""Images that are seen to tell how many more the time allows."""
HELD = 5
"""One in so many images of a training class is held out where a collection holds out none."""


@dataclass(frozen=True, eq=False)
class AuditTasks:
    """Tasks on the frozen features; for zero-shot tasks also the training classes, and ``note``, how they were cut."""

    context: Context
    rule: Rule
    train: ZeroShot | None = None
    note: str = ""

    @property
    def setting(self) -> Setting:
        if isinstance(self.rule, ZeroShot):
            return "zero-shot"
        if self.rule.axes == 2:
            return "pairs"
        return "few-shot" if "labels" in self.rule.shows else "clustering"

    def episodes(self, n: int) -> list[Episode]:
        return self.rule.draw_block(self.context.seed, 0, n)


def tasks_of(context: Context) -> AuditTasks:
    """The audit's own rule, or the one that suits its method and its labels, narrowed to what the part can serve."""
    if "tasks" not in context.kept:
        spec = context.rule or suitable(context)
        seen = context.view.like(context.part)
        if callable(spec):
            rule = spec(seen)
        elif spec == "n-way":
            rule = usual_tasks(seen)
        elif spec == "pairs":
            rule = feasible(context.view.like(pair_part(context)))
        else:
            rule = registry.make("rules", spec, {}, seen)
        if isinstance(rule, Clustering) and rule.mode == "clustering":
            raise Infeasible("a score is split by answers to queries; ask clustering tasks with mode='unsupervised'")
        if isinstance(rule, ZeroShot):
            context.kept["tasks"] = AuditTasks(context, *described(context, rule, isinstance(given(context), Learner)))
        else:
            context.kept["tasks"] = AuditTasks(context, checked(rule) if callable(spec) else narrowed(rule))
    return context.kept["tasks"]


def checked(rule: Rule) -> Rule:
    rule.check()
    return rule


def suitable(context: Context) -> str:
    """The rule for a method by what it needs; without one, pairs where the class is a pair, else n-way."""
    chosen = given(context)
    if chosen is None:
        if len(context.collection.card.labels) == 2:
            try:
                feasible(context.view.like(pair_part(context)))
                return "pairs"
            except HandfulError:
                pass
        return "n-way"
    method = chosen.method if isinstance(chosen, Learner) else chosen
    if "images" not in method.needs:
        return "zero-shot"
    if method.axes == 2:
        return "pairs"
    return "n-way" if "labels" in method.needs else "clustering"


def given(context: Context) -> Method | Learner | None:
    """The method of an audit, if it has one: made by name, or loaded from its folder."""
    if "method" not in context.kept:
        context.kept["method"] = chosen(context.method, compute=context.compute) if context.method else None
    return context.kept["method"]


def narrowed(rule: Rule) -> Rule:
    """The rule, or the nearest to it that its part can serve; if none can be, what the rule itself lacks is said."""
    if isinstance(rule, Clustering):
        return dataclasses.replace(rule, part=rule.part, of=narrowed(rule.of))
    if type(rule) is NWay:
        return usual_tasks(rule.part, rule.shots, rule.queries)
    reason: Infeasible | None = None
    for changes in smaller(rule):
        made = dataclasses.replace(rule, **changes)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made.check()
            return made
        except Infeasible as error:
            reason = reason or error
    assert reason is not None
    raise reason


def smaller(rule: Rule) -> Iterator[dict[str, Any]]:
    """Changes of a rule's numbers: none, then fewer images and fewer ways; at last without room for conflicting queries."""
    yield {}
    known = {f.name: getattr(rule, f.name) for f in dataclasses.fields(rule)}
    if not isinstance(known.get("queries"), int):
        return
    if not (isinstance(known.get("ways"), int) and isinstance(known.get("shots"), int)):
        yield from ({"queries": q} for q in (15, 10, 5, 2, 1) if q < known["queries"])
        return
    free = "conflict" in known and getattr(rule, "target", "") != "conflicting"
    for ways, (shots, queries) in itertools.product(range(min(5, known["ways"]), 1, -1), SHAPES):
        if shots <= known["shots"] and queries <= known["queries"]:
            for conflict in ({}, {"conflict": False}) if free else ({},):
                yield {"ways": ways, "shots": shots, "queries": queries, **conflict}


def pair_part(context: Context) -> Part:
    """The part that pair tasks come from: where time is short, fewer images of all pairs."""
    part = context.whole_part
    if len(part) > len(context.part) and context.rate < 1e5:
        return pair_pool(part, len(context.part), context.seed)
    return part


def within(context: Context, part: Part, seconds: float) -> Part:
    """As many images of a part as can be seen through the net in the time, by the speed of one block of them."""
    new = part.rows[context.view._place[part.rows] < 0]
    if len(new) <= BLOCK:
        return part
    start = time.monotonic()
    context.view.read(np.random.default_rng(context.seed).permutation(new)[:BLOCK])
    room = int(BLOCK / max(time.monotonic() - start, 1e-6) * seconds)
    return part if len(new) <= room else fewer(part, max(room, POOLS[0]), context.seed)


@dataclass(frozen=True)
class Generalised(GeneralisedZeroShot):
    """Generalised zero-shot tasks with training images and held-out images of one's own choice."""

    shown: Part | None = None
    held: Part | None = None

    @property
    def train(self) -> Part:  # type: ignore[override]
        assert self.shown is not None
        return self.shown

    @property
    def held_out(self) -> Part:  # type: ignore[override]
        assert self.held is not None
        return self.held


def described(context: Context, rule: ZeroShot, fitted: bool) -> tuple[ZeroShot, ZeroShot, str]:
    """A zero-shot rule on the frozen features, its training classes, and what was held out for it.

    ``fitted`` says that the learner was trained elsewhere, so that no image can be held out from it any more.
    """
    semantics, view, train = semantics_of(context, rule), context.view, context.train
    if train is not None:
        train = within(context, train, 0.12 * context.budget)
    if train is None or train.n_classes < 2:
        raise Infeasible(
            f"{rule.name} tasks need training classes apart from those asked, and {context.collection.card.name} has none beside "
            f"{context.whole_part.split}; name the split with --split, or split its classes with: handful data split"
        )
    if not isinstance(rule, GeneralisedZeroShot):
        made: ZeroShot = dataclasses.replace(rule, semantics=semantics)
        note = ""
    else:
        train, held, note = held_out(context, train, fitted)
        made = Generalised(rule.part, semantics, rule.queries, shown=view.like(train), held=view.like(held))
    made.check()
    return made, ZeroShot(view.like(train), semantics), note


def semantics_of(context: Context, rule: ZeroShot) -> Semantics:
    """What the rule says describes the classes; where it says nothing, what the collection carries, else its label columns."""
    collection = context.collection
    if isinstance(rule.semantics, Semantics):
        return rule.semantics
    if rule.semantics != "factors":
        return open_semantics(rule.semantics, collection)
    with suppress(Missing):
        return open_semantics("stored", collection)
    try:
        return open_semantics("factors", collection)
    except BadInput as error:
        raise Infeasible(
            f"{collection.card.name} does not describe its classes: it has {len(collection.card.labels)} label column and no "
            "descriptions.npz; pack descriptions with it, or give Python's audit a rule with semantics"
        ) from error


def held_out(context: Context, train: Part, fitted: bool) -> tuple[Part, Part, str]:
    """Training images, images of the same classes to ask for, and how they were told apart."""
    scheme = train.scheme
    try:
        held = context.collection.part("test_seen", scheme or None)
    except HandfulError as error:
        if fitted:
            raise Infeasible(
                f"{context.collection.card.name} holds out no images of training classes (split test_seen), and a trained model "
                "may have seen them all; hold some out, or give the method's name to have it trained here"
            ) from error
        place = np.empty(len(train), dtype=np.int64)
        for c in range(train.n_classes):
            own = np.flatnonzero(train.classes == c)
            place[np.random.default_rng([context.seed, c]).permutation(own)] = np.arange(len(own))
        away = place % HELD == HELD - 1
        if not away.any():
            raise Infeasible(
                f"no training class has the {HELD} images of which one can be held out; add a split test_seen"
            ) from error
        note = f"one in {HELD} images of each training class was held out"
        return train.where(~away, "kept"), train.where(away, "held out"), note
    names = np.asarray(held.class_names)[held.classes]
    held = held.where(np.isin(names, train.class_names), "of the training classes")
    room = affordable(POOLS, context.rate, 0.06 * context.budget)
    return train, fewer(held, room, context.seed) if len(held) > room else held, ""


def gathered(asked: AuditTasks, told: Iterable[tuple[Episode, np.ndarray]]) -> TaskAnswers:
    """Answers from the labels given to the queries of each task."""
    columns: list[list[np.ndarray]] = [[], [], [], [], []]
    for e, labels in told:
        n = len(e.query)
        row = (np.full(n, e.number), e.query, e.query_labels, labels, np.full(n, e.n_classes))
        for column, values in zip(columns, row, strict=True):
            column.append(values)
    task, image, truth, labels, ways = (np.concatenate(c) for c in columns)
    return TaskAnswers(task, image, asked.context.collection.whole.classes[image], truth, labels, ways)


def in_words(rule: Rule) -> str:
    """The shape of the tasks of a split score."""
    ways, shots = getattr(rule, "ways", None), getattr(rule, "shots", None)
    if isinstance(rule, Clustering):
        return f"{in_words(rule.of)} without labels"
    if isinstance(rule, ZeroShot):
        kind = "generalised " if isinstance(rule, GeneralisedZeroShot) else ""
        return f"{kind}zero-shot among {len(rule.candidates)} classes"
    if rule.axes == 2:
        return f"{getattr(rule, 'primitives', '')} x {getattr(rule, 'primitives', '')} pairs, {shots}-shot"
    shape = f"{ways}-way {shots}-shot" if isinstance(ways, int) and isinstance(shots, int) else ""
    return ", ".join(x for x in ("" if rule.name == "n-way" else rule.name, shape) if x)
