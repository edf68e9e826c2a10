"""The one loop that asks a learner: each task of a rule with the learner's scores, in blocks of fixed size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from handful.clock import timed
from handful.errors import BadInput
from handful.tasks.episode import Episode, Query
from handful.tasks.rule import Rule

CHUNK = 64
"""Tasks that are drawn and answered together; fixed, since the shape of a batch changes the last bits."""

Scores = tuple[np.ndarray, np.ndarray | None]
"""Scores of a task's queries, and of its support where labels are hidden."""
Together = Callable[[list[Episode]], Iterable[Scores]]


class Answered(NamedTuple):
    """A task, the scores of its queries, and those of its support where its labels are hidden."""

    episode: Episode
    scores: np.ndarray
    support: np.ndarray | None

    @property
    def accuracy(self) -> float:
        return float((self.scores.argmax(1) == self.episode.query_labels).mean())


def answers(
    learner: Any, rule: Rule, n: int, seed: int, *, start: int = 0, together: Together | None = None
) -> Iterator[Answered]:
    """Tasks ``start`` to ``n`` of a drawing seed with a learner's scores: one by one, or a block at a time ``together``."""
    for at in range(start, n, CHUNK):
        with timed("draw"):
            episodes = rule.draw_block(seed, at, min(at + CHUNK, n))
        found = together(episodes) if together is not None else (one_by_one(learner, rule, e) for e in episodes)
        for episode, (scores, support) in zip(episodes, found, strict=True):
            yield Answered(episode, scores, support)


def one_by_one(learner: Any, rule: Rule, episode: Episode) -> Scores:
    """The answer of any learner of the contract to one task."""
    with timed("read"):
        support = rule.support(episode)
        query = Query(rule.part.collection.read(episode.query))
    with timed("fit"):
        predictor = learner.fit(support)
    with timed("predict"):
        scores = np.asarray(predictor.predict(query), dtype=np.float32)
    if scores.shape != (len(episode.query), episode.n_classes):
        raise BadInput(
            f"{learner.method.name} answered with shape {scores.shape} to {len(episode.query)} queries over "
            f"{episode.n_classes} classes; predict must give (n_query, n_classes)"
        )
    if np.isnan(scores).any():
        raise BadInput(f"{learner.method.name} answered NaN in task {episode.number}; check its training")
    if "labels" in episode.shows or "images" not in episode.shows:
        return scores, None
    with timed("predict"):
        return scores, predictor.support_scores()
