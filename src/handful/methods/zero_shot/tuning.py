"""Choices made on validation classes, which training has not seen: a method's options, and its bias against seen classes."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from handful.errors import BadInput, Mismatch
from handful.methods.answering import answers
from handful.methods.zero_shot.data import Lessons, read
from handful.methods.zero_shot.learner import ZeroShotLearner
from handful.metrics.zero_shot import hits_at, stacking_of
from handful.nets.compute import Compute
from handful.progress import note
from handful.tasks.episode import Query
from handful.tasks.rule import Rule
from handful.tasks.zero_shot import ZeroShot

if TYPE_CHECKING:
    from handful.methods.zero_shot.base import ZeroShotMethod

HELD = 5
WIDER = 3
BLOCK = 4096


def check(method: ZeroShotMethod, train: ZeroShot, valid: Rule) -> None:
    """Refuse a validation rule unless its classes are described and unseen."""
    if not isinstance(valid, ZeroShot):
        raise Mismatch(f"{method.name} is tuned on classes with descriptions; give a zero-shot rule on valid")
    both = sorted(set(train.part.class_names) & set(valid.part.class_names))
    if both:
        raise BadInput(f"validation classes must be unseen, but {both[0]} is in train too ({len(both)} such)")


def given_to(learner: ZeroShotLearner, train: Rule) -> Lessons:
    """Features and descriptions of the training classes, read once for all stages."""
    if learner.given is None:
        learner.given = read(learner.method, cast(ZeroShot, train), learner.compute)
    return learner.given


def choose_options(learner: ZeroShotLearner, train: Rule, valid: Rule | None) -> None:
    """Take the options that are best on the validation classes, if there are some."""
    if isinstance(valid, ZeroShot):
        with learner.compute.here():
            best, tries = choose(learner.method, given_to(learner, train), valid, learner.compute)
        learner.method, learner.tensors, learner.tuning = best.method, best.tensors, tries


def choose_bias(learner: ZeroShotLearner, train: Rule, valid: Rule | None) -> None:
    """Take the bias against seen classes that is best on validation."""
    train, valid = cast(ZeroShot, train), cast(ZeroShot, valid)
    with learner.compute.here():
        chosen = bias(learner.method, given_to(learner, train), train, valid, learner.compute)
    learner.method = dataclasses.replace(learner.method, calibration=chosen)


def fit_all(learner: ZeroShotLearner, train: Rule, valid: Rule | None) -> None:
    """The fit that is kept: on training and validation classes together, or on training classes alone."""
    method, compute = learner.method, learner.compute
    with compute.here():
        given = given_to(learner, train)
        if isinstance(valid, ZeroShot) and method.refit:
            learner.tensors = method.learner(given.joined(read(method, valid, compute)), compute).tensors
        elif not learner.tensors:
            learner.tensors = method.learner(given, compute).tensors
    learner.given = None


def tried(method: ZeroShotMethod) -> dict[str, tuple[Any, ...]]:
    """Options of the grid that are tuned: neither kept nor away from their defaults."""
    defaults = {f.name: f.default for f in dataclasses.fields(method)}
    kept = method.kept or ()
    return {k: v for k, v in method.grid.items() if k not in kept and getattr(method, k) == defaults[k]}


def choose(
    method: ZeroShotMethod, given: Lessons, valid: ZeroShot, compute: Compute
) -> tuple[ZeroShotLearner, list[dict[str, Any]]]:
    """The learner whose options are best on the validation classes (the first of equals), and all tries.

    Where the best value of a real number is the first or last of its grid, the grid goes on in the same ratio, up to
    ``WIDER`` times; a best value that still is at an edge is said.
    """
    grid = {k: list(v) for k, v in tried(method).items()}
    found: dict[tuple[Any, ...], float] = {}
    best: tuple[float, tuple[Any, ...], ZeroShotLearner] | None = None

    def attempt(values: tuple[Any, ...]) -> None:
        nonlocal best
        options = dict(zip(grid, values, strict=True))
        learner = dataclasses.replace(method, tune=False, **options).learner(given, compute)
        found[values] = validate(learner, valid)
        if best is None or found[values] > best[0]:
            best = (found[values], values, learner)

    for values in itertools.product(*grid.values()):
        attempt(values)
    assert best is not None
    for _ in range(WIDER):
        beyond = [(i, _beyond(list(grid.values())[i], best[1][i])) for i in _edges(grid, found, best[1])]
        wider = [(i, value) for i, value in beyond if value is not None]
        if not wider:
            break
        place, value = wider[0]
        values_of = grid[list(grid)[place]]
        values_of.insert(0 if value < values_of[0] else len(values_of), value)
        for values in itertools.product(*([value] if i == place else v for i, v in enumerate(grid.values()))):
            attempt(values)
    said = ", ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in zip(grid, best[1], strict=True))
    note(f"{method.name}: {said} chosen on {valid.part.n_classes} validation classes (accuracy {best[0]:.3f})")
    for i in _edges(grid, found, best[1]):
        name, value = list(grid)[i], best[1][i]
        end = "smallest" if value == grid[name][0] else "largest"
        note(f"{method.name}: {name}={value:g} is the {end} that was tried; one beyond it may be better, set it")
    return best[2], [
        {"options": dict(zip(grid, values, strict=True)), "accuracy": score} for values, score in found.items()
    ]


def _edges(grid: dict[str, list[Any]], found: dict[tuple[Any, ...], float], best: tuple[Any, ...]) -> list[int]:
    """Which options of the best try are numbers at an end of their grid, and better than the next inner value."""
    out = []
    for i, values in enumerate(grid.values()):
        if len(values) < 2 or not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values):
            continue
        if best[i] in (values[0], values[-1]):
            inner = values[1] if best[i] == values[0] else values[-2]
            if found[best] > found[(*best[:i], inner, *best[i + 1 :])]:
                out.append(i)
    return out


def _beyond(values: list[Any], end: Any) -> float | None:
    """The number that follows an end of the grid, in the ratio of the last two; more of a whole number is dearer: none."""
    inner = values[1] if end == values[0] else values[-2]
    if not (end > 0 and inner > 0):
        return None
    if isinstance(end, float):
        return end * (end / inner)
    smaller = max(1, end * end // inner)
    return smaller if smaller < end < inner else None


def validate(learner: ZeroShotLearner, rule: ZeroShot) -> float:
    """Per-image accuracy at 1 on the rule's classes."""
    hits, total = 0.0, 0
    for found in answers(learner, rule, rule.size, 0):
        hits += float(hits_at(found.scores, found.episode.query_labels, 1).sum())
        total += len(found.scores)
    return hits / total


def bias(method: ZeroShotMethod, given: Lessons, train: ZeroShot, valid: ZeroShot, compute: Compute) -> float:
    """The bias against seen classes of the largest harmonic mean on validation (Chao et al., ECCV 2016).

    One in five images of every training class is held out, the method is fitted on the others, and both these images
    and those of the validation classes are asked among the training and validation classes together.
    """
    y = given.y.cpu().numpy()
    order = np.lexsort((np.random.default_rng([method.seed, 0xCA1B]).random(len(y)), y))
    counts = np.bincount(y, minlength=len(given.s))
    rank = np.empty(len(y), np.int64)
    rank[order] = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
    held = rank < np.maximum(counts // HELD, counts > 1)[y]
    if not held.any():
        raise BadInput("calibration=validation holds out images of training classes, and none has two; give a number")
    rows = torch.as_tensor(np.flatnonzero(~held), device=given.x.device)
    learner = method.learner(given.only(rows), compute)
    names = [*train.part.class_names, *valid.part.class_names]
    predictor = learner.fit(
        dataclasses.replace(valid.support(valid.draw(0, 0)), descriptions=train.described.shown(names))
    )
    seen = np.arange(len(names)) < train.part.n_classes
    margin, right = [], []

    def add(scores: np.ndarray, truth: np.ndarray) -> None:
        best = [np.where(side, scores, -np.inf).max(axis=1) for side in (seen, ~seen)]
        margin.append(best[0] - best[1])
        right.append(scores[np.arange(len(truth)), truth] >= np.where(seen[truth], *best))

    with torch.no_grad():
        for block in np.array_split(np.flatnonzero(held), -(-int(held.sum()) // BLOCK)):
            at = torch.as_tensor(block, device=given.x.device)
            add(predictor.answer(given.x[at]).float().cpu().numpy(), y[block])
    n_held = int(held.sum())
    for episode in valid.draw_block(0, 0, valid.size):
        query = Query(valid.part.collection.read(episode.query))
        add(predictor.predict(query), episode.query_labels + train.part.n_classes)
    is_seen = np.arange(sum(map(len, margin))) < n_held
    return stacking_of(np.concatenate(margin), np.concatenate(right), is_seen).best
