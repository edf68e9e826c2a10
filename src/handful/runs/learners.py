"""One path from what a person names to a trained learner: a name, a method, a learner or a model folder."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from handful import registry
from handful.data.collection import Collection, Part
from handful.data.opening import open_collection
from handful.errors import BadInput, Mismatch, nearest
from handful.methods.contract import FACTS, Learner, Method, agree, load, model_folder, packaged
from handful.methods.schedule import Schedule
from handful.nets.building import own
from handful.nets.compute import Compute
from handful.progress import note
from handful.tasks.anyway import AnyWay
from handful.tasks.nway import NWay
from handful.tasks.rule import Rule
from handful.tasks.zero_shot import ZeroShot

Spec = str | os.PathLike[str] | Method | Learner
Asked = Rule | Part | Collection | str


def chosen(spec: Spec, options: Mapping[str, Any] | None = None, compute: Compute | None = None) -> Method | Learner:
    """What ``spec`` names: a method with its options, or a trained learner."""
    if isinstance(spec, (Method, Learner)):
        return spec
    if not isinstance(spec, (str, os.PathLike)):
        raise BadInput(
            f"{spec!r} is no method; give a name (handful ls methods), a method, a learner or a model folder"
        )
    text = os.fspath(spec)
    folder = model_folder(text)
    if (folder / FACTS).is_file() or (text not in registry.table("methods") and folder.is_dir()):
        again = (options or {}).get("net")
        if options and not (len(options) == 1 and own(again)):
            raise BadInput(f"{text} is a trained model; its options cannot be set, train another")
        return load(folder, compute, again)
    if "/" in text and text not in registry.names("methods"):
        raise BadInput(f"there is no model folder and no packaged model named {text!r}; {nearest(text, packaged())}")
    return named(text, options)


def named(name: str, options: Mapping[str, Any] | None = None, seed: int | None = None) -> Method:
    """A method by name; ``seed`` is that of all its schedules for which the options name none."""
    method: Method = registry.make("methods", name, options)
    if seed is None:
        return method
    for field in dataclasses.fields(method):
        schedule, given = getattr(method, field.name), (options or {}).get(field.name)
        named_already = f"{field.name}.seed" in (options or {}) or (isinstance(given, Mapping) and "seed" in given)
        if isinstance(schedule, Schedule) and not named_already:
            method = method.with_options(**{field.name: dataclasses.replace(schedule, seed=seed)})
    return method


def rule_of(asked: Asked) -> Rule:
    """A rule as it is; of a part or a collection (its test split, if it has one) the usual 5-way 5-shot tasks."""
    if isinstance(asked, Rule):
        return asked
    if isinstance(asked, (str, os.PathLike)):
        asked = open_collection(asked)
    if isinstance(asked, Collection):
        asked = choose_part(asked, "test", None)
    if not isinstance(asked, Part):
        raise BadInput(f"{asked!r} is no rule; give a rule such as hf.tasks.NWay(part), a part, or a collection")
    several = "dataset" in asked.collection.table.columns
    return AnyWay(asked, 5, 5, 15) if several else NWay(asked, 5, 5, 15)


def choose_part(collection: Collection, split: str, scheme: str | None) -> Part:
    """The named split; a collection without splits serves whole, so that a folder of photos can be evaluated."""
    if split == "all" or (not collection.card.schemes and split == "test"):
        return collection.whole
    return collection.part(split, scheme)


def training(
    method: Method,
    asked: Rule,
    ways: int | tuple[int, int] | None = None,
    shots: int | None = None,
    queries: int | None = None,
    rule: Rule | None = None,
) -> tuple[Rule | None, Rule | None]:
    """The tasks a method is trained on and those it is validated on, for tasks like ``asked``; no tasks where it does not train.

    ``ways``, ``shots`` and ``queries`` are those of the training tasks, like those of ``asked`` by default; ``rule`` is another
    rule to train on. Wherever nobody names training tasks, they are chosen here and nowhere else.
    """
    if "images" not in asked.shows:
        plain = described(asked)
        valid = on_valid(plain)
        if valid is None and getattr(method, "tune", False) and getattr(method, "grid", None):
            note("no validation classes: the method's default options are used")
        return rule or lessons(method, plain), valid
    if method.trains == "no":
        return None, None
    return rule or lessons(method, asked, ways, shots, queries), validation(method, asked)


def lessons(
    method: Method,
    rule: Rule,
    ways: int | tuple[int, int] | None = None,
    shots: int | None = None,
    queries: int | None = None,
) -> Rule:
    """Tasks like those asked, of the train split, of one fixed shape where the method takes single labels of images."""
    part = choose_part(rule.part.collection, "train", rule.part.scheme or None)
    inner = getattr(rule, "of", None) or rule
    if method.axes == 1 and "images" in rule.shows and hasattr(inner, "ways"):
        ways = ways or inner.ways
        few: Any = shots or getattr(inner, "shots", 5)
        fixed = max(2, ways if isinstance(ways, int) else min(5, ways[1]))
        shown = few if isinstance(few, int) else min(5, few[1])
        return NWay(part, fixed, max(1, shown), queries or min(getattr(inner, "queries", 15) or 15, 15))
    return dataclasses.replace(rule, part=part)


def taught(
    method: Method,
    asked: Rule,
    *,
    ways: int | None = None,
    shots: int | None = None,
    queries: int | None = None,
    compute: Compute | None = None,
) -> Learner:
    """The method trained for tasks like ``asked``, on the tasks that `training` chooses; untrained if it does not train."""
    train, valid = training(method, asked, ways, shots, queries)
    return learner_of(method, train=train, valid=valid, shape=asked.image_shape, compute=compute)


def described(asked: Rule) -> ZeroShot:
    """The plain zero-shot rule behind one that also asks seen classes, or wraps another: descriptions are learned from it."""
    inner: Any = getattr(asked, "of", None) or asked
    return ZeroShot(inner.part, inner.semantics)


def validation(method: Method, rule: Rule) -> Rule | None:
    """Tasks like ``rule``'s of the valid split, for a method whose schedule validates; without such a split, a note."""
    schedules = [getattr(method, f.name) for f in dataclasses.fields(method)]
    if not any(isinstance(s, Schedule) and s.validate_every for s in schedules):
        return None
    found = on_valid(rule)
    if found is None:
        name = rule.part.collection.card.name
        note(f"{name} has no valid split, so the last state is kept whatever validate_every says")
    return found


def has_split(collection: Collection, split: str, scheme: str | None = None) -> bool:
    """Whether any image is of the split, under the named scheme or else the first."""
    used = scheme or next(iter(collection.card.schemes), "")
    return bool(used) and bool((collection.table[used] == split).any())


def on_valid(rule: Rule) -> Rule | None:
    """Tasks like ``rule``'s of the valid split; nothing without such a split."""
    collection, scheme = rule.part.collection, rule.part.scheme or None
    if not has_split(collection, "valid", scheme):
        return None
    found = rule.on(collection.part("valid", scheme))
    found.check()
    return found


def learner_of(
    what: Method | Learner,
    *,
    train: Rule | None,
    valid: Rule | None = None,
    shape: tuple[int, ...] | None = None,
    trained: bool = True,
    compute: Compute | None = None,
    keep: Path | None = None,
    training: Path | None = None,
) -> Learner:
    """A learner, trained if its method trains and ``trained`` is not False; ``shape`` is that of the images, ``train``'s by default.

    ``keep`` is its model folder: what is there is loaded instead of trained, what is trained is saved there. ``training`` is
    where checkpoints and the log go (beside ``keep`` by default).
    """
    if isinstance(what, Learner):
        return what
    if keep is not None and (keep / FACTS).is_file():
        net = getattr(what, "net", None)
        return load(keep, compute, net if own(net) else None)
    if not trained or (what.trains == "no" and train is None):
        shape = shape or (train.image_shape if train is not None else ())
        return what.untrained(shape, train.n_classes if train is not None else 2, compute)
    training = training or (keep.with_suffix(".training") if keep is not None else None)
    learner = what.meta_fit(train, valid, compute=compute, keep=training)
    if keep is not None:
        learner.save(keep)
    return learner


def answering(spec: Spec, asked: Asked, compute: Compute | None = None) -> tuple[Learner, Rule]:
    """The learner and the rule of ``evaluate(spec, asked)``; a method that trains is trained on the train split."""
    rule, found = rule_of(asked), chosen(spec, compute=compute)
    agree(found.method if isinstance(found, Learner) else found, rule)
    rule.check()
    learner = found if isinstance(found, Learner) else taught(found, rule, compute=compute)
    fits(learner, rule)
    return learner, rule


def fits(learner: Learner, rule: Rule) -> None:
    """Refuse images of another size than those the learner was made for."""
    takes = tuple(getattr(learner, "shape", rule.image_shape))
    if takes != tuple(rule.image_shape):
        raise Mismatch(
            f"this {learner.method.name} was made for images of {takes}, {rule.part.collection.card.name} has "
            f"{tuple(rule.image_shape)}; pack them at that size, or train it on such images"
        )
