"""Choices made on validation classes, which training has not seen: a method's options, and its bias against seen classes."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from handful.errors import BadInput, Mismatch
from handful.methods.zero_shot.data import Given
from handful.methods.zero_shot.learner import ZeroShotLearner
from handful.metrics.zero_shot import hits_at, stacking_of
from handful.nets.compute import Compute
from handful.tasks.episode import Query
from handful.tasks.rule import Rule
from handful.tasks.zero_shot import ZeroShot

if TYPE_CHECKING:
    from handful.methods.zero_shot.base import ZeroShotMethod

HELD = 5
BLOCK = 4096


def check(method: ZeroShotMethod, train: ZeroShot, valid: Rule) -> ZeroShot:
    """The validation rule, refused unless its classes are described and unseen."""
    if not isinstance(valid, ZeroShot):
        raise Mismatch(f"{method.name} is tuned on classes with descriptions; give a zero-shot rule on valid")
    both = sorted(set(train.part.class_names) & set(valid.part.class_names))
    if both:
        raise BadInput(f"validation classes must be unseen, but {both[0]} is in train too ({len(both)} such)")
    return valid


def tried(method: ZeroShotMethod) -> dict[str, tuple[Any, ...]]:
    """Options of the grid that are still at their defaults: one that was set is kept as it is."""
    defaults = {f.name: f.default for f in dataclasses.fields(method)}
    return {k: v for k, v in method.grid.items() if getattr(method, k) == defaults[k]}


def choose(method: ZeroShotMethod, given: Given, valid: ZeroShot, compute: Compute) -> ZeroShotLearner:
    """The learner whose options are best on the validation classes; the first of equals."""
    grid = tried(method)
    best: tuple[float, ZeroShotLearner] | None = None
    for values in itertools.product(*grid.values()):
        learner = dataclasses.replace(method, tune=False, **dict(zip(grid, values, strict=True))).learner(
            given, compute
        )
        accuracy = validate(learner, valid)
        if best is None or accuracy > best[0]:
            best = (accuracy, learner)
    assert best is not None
    return best[1]


def validate(learner: ZeroShotLearner, rule: ZeroShot) -> float:
    """Per-image accuracy at 1 on the rule's classes."""
    hits, total = 0.0, 0
    for episode in rule.draw_block(0, 0, rule.size):
        scores = learner.fit(rule.support(episode)).predict(Query(rule.part.collection.read(episode.query)))
        hits += float(hits_at(scores, episode.query_labels, 1).sum())
        total += len(episode.query)
    return hits / total


def bias(method: ZeroShotMethod, given: Given, train: ZeroShot, valid: ZeroShot, compute: Compute) -> float:
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
