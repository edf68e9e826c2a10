"""Whose score is split: the usual method of a setting, one by name, or a model folder; on what it looks at."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from handful.audits.answers import TaskAnswers, labels_of
from handful.audits.composition import feasible
from handful.audits.context import TASKS, Context, usual_tasks
from handful.audits.cscc import ENOUGH, LADDER, RELATIVE_GAMMA
from handful.audits.tasks import AuditTasks, gathered, given, tasks_of
from handful.data.collection import Collection, Part
from handful.errors import Infeasible, Mismatch
from handful.methods.clustering.centroid import CentroidNet
from handful.methods.compositional.lifted import PairProtoNet
from handful.methods.contract import Learner, Method, agree
from handful.methods.metric.nearest_centroid import NearestCentroid
from handful.methods.zero_shot.eszsl import ESZSL
from handful.nets.compute import Compute
from handful.options import parse_spec
from handful.runs.answering import answers_to
from handful.runs.learners import learner_of
from handful.tasks.rule import Rule
from handful.tasks.zero_shot import ZeroShot

FEW = (5, 10, 25, 50, 100, 200, 400)
"""Tasks of a method that may take seconds for each."""


@dataclass(frozen=True, eq=False)
class Answering:
    """A learner, the tasks as it sees them (pixels, or frozen features), and who it is in words.

    ``short``: it was trained here for too few steps to be judged.
    """

    learner: Learner
    rule: Rule
    said: str
    short: bool = False


def check_method(context: Context) -> None:
    """Refuse a method that is none, cannot answer the tasks, or cannot see the images, before anything is measured."""
    chosen = given(context)
    assert chosen is not None
    tasks = tasks_of(context)
    method = chosen.method if isinstance(chosen, Learner) else chosen
    agree(method, tasks.rule)
    if getattr(method, "needs_graph", False) and tasks.train is not None and tasks.train.described.taxonomy is None:
        raise Mismatch(
            f"{method.name} needs the classes' hierarchy, and the descriptions here have none; choose another"
        )
    if sees_pixels(context, chosen):
        on(tasks.rule, context.collection).check()
    if isinstance(chosen, Method) and chosen.trains != "no":
        lessons(tasks, chosen)


def sees_pixels(context: Context, chosen: Method | Learner) -> bool:
    """Whether a method looks at the images itself; if not, it is asked on the frozen features."""
    card, features = context.collection.card, tuple(context.view.card.shape)
    if isinstance(chosen, Learner):
        shape = tuple(getattr(chosen, "shape", card.shape))
        if shape != features and not (context.images and shape == tuple(card.shape)):
            raise Mismatch(
                f"this {chosen.method.name} takes {by(shape)}, {card.name} holds {by(card.shape)} ({by(features)} as {context.net} "
                "features); pack the images at that size, or name the net that it was trained on"
            )
        return shape != features
    own = parse_spec(getattr(chosen, "net", "conv4"))[0] != "pixels"
    if own and (not context.images or context.features is not None) and getattr(chosen, "maps", False):
        raise Mismatch(f"{chosen.name} reads feature maps of images, and here are features only; choose another method")
    return own and context.images and context.features is None


def by(shape: Iterable[int]) -> str:
    return "x".join(map(str, shape))


def on(rule: Rule, collection: Collection) -> Rule:
    """The same tasks, by image number, of another collection with the same table."""

    def moved(value: Any) -> Any:
        if isinstance(value, Part):
            return Part(collection, value.scheme, value.split, value.rows)
        if isinstance(value, Rule):
            return on(value, collection)
        return tuple(moved(v) for v in value) if isinstance(value, tuple) else value

    fields = [f.name for f in dataclasses.fields(rule)]
    return dataclasses.replace(rule, **{name: moved(getattr(rule, name)) for name in fields})


def answering(tasks: AuditTasks, seconds: float) -> Answering:
    """The learner whose score is split: the audit's method, trained in the time if it trains, or the usual one."""
    context, chosen = tasks.context, given(tasks.context)
    if chosen is None:
        return usual(tasks)
    pixels = sees_pixels(context, chosen)
    rule = on(tasks.rule, context.collection) if pixels else tasks.rule
    where = "pixels" if pixels else frozen(context)
    if isinstance(chosen, Learner):
        return Answering(chosen, rule, f"{chosen.method.name} as trained, on {where}")
    if not pixels and parse_spec(getattr(chosen, "net", "pixels"))[0] != "pixels":
        chosen = chosen.with_options(net="mlp")
    if chosen.trains == "no":
        learner = learner_of(chosen, train=None, shape=rule.image_shape, compute=context.compute)
        return Answering(learner, rule, f"{chosen.name} on {where}")
    source = lessons(tasks, chosen)
    if not pixels:
        context.view.read(source.part.rows)
    learner, how, short = trained(chosen, source, seconds, context.compute)
    return Answering(learner, rule, f"{chosen.name} on {where}, {how}", short)


def usual(tasks: AuditTasks) -> Answering:
    """Class means on the frozen features; of each primitive for pairs; Sinkhorn K-means; ESZSL."""
    rule, context = tasks.rule, tasks.context
    if tasks.train is not None:
        learner = learner_of(ESZSL(), train=tasks.train, compute=context.compute)
        return Answering(learner, rule, f"ESZSL on {frozen(context)}")
    method, said = {
        "few-shot": (NearestCentroid(), "class means"),
        "pairs": (PairProtoNet(net="pixels"), "means of each primitive"),
        "clustering": (clusterer(), "Sinkhorn K-means"),
    }[tasks.setting]
    learner = learner_of(method, train=None, shape=rule.image_shape, trained=False, compute=context.compute)
    return Answering(learner, rule, f"{said} on {frozen(context)}")


def frozen(context: Context) -> str:
    """The features that the audit looks through."""
    if context.net == "pixels":
        return "pixels" if context.images else "its features"
    return context.net if context.features is not None else f"{context.net} features"


def clusterer() -> CentroidNet:
    """Sinkhorn K-means on features that were not trained for it, as the frozen CSCC has it."""
    return CentroidNet(net="pixels", relative=True, gamma=RELATIVE_GAMMA, eval_conditional="sinkhorn", starts=4)


def lessons(tasks: AuditTasks, method: Method) -> Rule:
    """What a method is trained on: tasks like those asked, of training classes apart from them."""
    context, pixels = tasks.context, sees_pixels(tasks.context, method)
    if tasks.train is not None:
        return on(tasks.train, context.collection) if pixels else tasks.train
    part = context.apart if pixels else context.train
    if part is None:
        raise Infeasible(
            f"{method.name} has to be trained, and {context.collection.card.name} has no training classes apart from those "
            "audited; name another split with --split, or give a model folder made by handful train"
        )
    seen = part if pixels else context.view.like(part)
    if tasks.rule.axes == 2:
        return feasible(seen)
    shots = getattr(tasks.rule, "shots", 5)
    return usual_tasks(seen, shots if isinstance(shots, int) else 5, 5)


def trained(method: Method, source: Rule, seconds: float, compute: Compute) -> tuple[Learner, str, bool]:
    """The method after the longest training of a fixed ladder that the time allows; in words; and whether it was too short."""
    unit = "steps" if hasattr(method, "schedule") else "epochs"
    whole = int(method.schedule.steps if unit == "steps" else getattr(method, "epochs", 0))  # type: ignore[attr-defined]
    if not whole:
        return learner_of(method, train=source, compute=compute), "trained here", False
    took, begun = {}, time.monotonic()
    for length in (1, 1, 3):
        start = time.monotonic()
        learner_of(cut(method, length), train=source, compute=compute)
        took[length] = time.monotonic() - start
        if took[1] > seconds:
            break
    each = max((took[3] - took[1]) / 2, 1e-6) if 3 in took else took[1]
    room = min(float(whole), (seconds - (time.monotonic() - begun) - took[1]) / each)
    length = max([rung for rung in (10, *LADDER, whole) if rung <= room], default=0)
    if not length:
        raise Infeasible(
            f"{method.name} takes {took[1]:.1f} seconds here for its first training {unit[:-1]}, and there are {seconds:.1f} for all; "
            "give more minutes, or a model folder made by handful train"
        )
    learner = learner_of(cut(method, length), train=source, compute=compute)
    return learner, f"trained here for {length:,} of {whole:,} {unit}", length < min(whole, ENOUGH)


def cut(method: Method, length: int) -> Method:
    """The method with a training of so many steps or epochs, without validation."""
    if not hasattr(method, "schedule"):
        return method.with_options(epochs=length)
    short = dataclasses.replace(method.schedule, steps=length, validate_every=0, select="last")
    return method.with_options(schedule=short)


def answers_of(tasks: AuditTasks, who: Answering, share: float) -> TaskAnswers:
    """A learner's answers to as many tasks as fit into a share of the time; to every class of zero-shot tasks."""
    context, rule = tasks.context, who.rule

    def ask(n: int) -> TaskAnswers:
        return told(tasks, who.learner, rule, n)

    if isinstance(rule, ZeroShot):
        return ask(rule.size)
    return context.paced(ask, share, TASKS if given(context) is None else FEW)[1]


def told(tasks: AuditTasks, learner: Learner, rule: Rule, n: int) -> TaskAnswers:
    """A learner's answers to n tasks."""
    return gathered(tasks, ((a.episode, labels_of(a)) for a in answers_to(learner, rule, n, tasks.context.seed)))
