"""Ask a learner for every class once, and keep of the scores what analyses need: answers among chosen candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from handful.methods.answering import answers
from handful.methods.contract import Learner
from handful.metrics.zero_shot import hits_at
from handful.tasks.zero_shot import ZeroShot

OUT = -1


@dataclass(frozen=True, eq=False)
class ClassAnswers:
    """Answers to every image of a rule.

    A *view* gives each candidate a group: an image is answered among the candidates of its own class's group, and not
    asked at all where the group is negative. So one pass over the images serves any number of test sets.
    """

    candidates: NDArray[np.str_]
    image: NDArray[np.int64]
    truth: NDArray[np.int64]
    seen: NDArray[np.bool_]
    top5: NDArray[np.float64]
    guess: dict[str, NDArray[np.int64]]
    hit: dict[str, NDArray[np.float64]]

    def named(self, columns: NDArray[np.int64]) -> NDArray[np.str_]:
        """Names of answers; an empty one where nothing was asked."""
        return np.where(columns >= 0, self.candidates[columns], "")

    def by_class(self, view: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Columns of the classes asked in a view, and the accuracy of each."""
        asked = self.guess[view] >= 0
        columns, place = np.unique(self.truth[asked], return_inverse=True)
        return columns, np.bincount(place, weights=self.hit[view][asked]) / np.bincount(place)


def everything(n: int) -> NDArray[np.int64]:
    """The view in which all candidates compete."""
    return np.zeros(n, dtype=np.int64)


def members(candidates: Sequence[str] | NDArray, chosen: Sequence[str] | NDArray) -> NDArray[np.int64]:
    """The view in which the chosen candidates compete and the others are left out."""
    return np.where(np.isin(np.asarray(candidates), np.asarray(list(chosen))), 0, OUT)


def groups_of(values: NDArray, size: int) -> NDArray[np.int64]:
    """Groups of ``size`` classes of like value, from the lowest; a last smaller one is left out.

    Accuracy depends on the number of classes, so groups of different size could not be compared.
    """
    out = np.full(len(values), OUT, dtype=np.int64)
    whole = len(values) // size * size
    out[np.argsort(values, kind="stable")[:whole]] = np.arange(whole) // size
    return out


def ask(learner: Learner, rule: ZeroShot, views: Mapping[str, NDArray[np.int64]]) -> ClassAnswers:
    """Answers in every view, and among all candidates as the view ``all``."""
    candidates = np.array(rule.candidates)
    wanted = {"all": everything(len(candidates)), **views}
    columns = {
        (name, group): np.flatnonzero(view == group)
        for name, view in wanted.items()
        for group in np.unique(view[view >= 0]).tolist()
    }
    image, truth, seen, top5 = [], [], [], []
    guess: dict[str, list[NDArray]] = {name: [] for name in wanted}
    hit: dict[str, list[NDArray]] = {name: [] for name in wanted}
    for episode, scores, _ in answers(learner, rule, rule.size, 0):
        own, n = int(episode.query_labels[0]), len(episode.query)
        image.append(episode.query)
        truth.append(episode.query_labels)
        seen.append(np.full(n, bool(episode.side["seen"])))
        top5.append(hits_at(scores, episode.query_labels, 5))
        for name, view in wanted.items():
            if view[own] < 0:
                guess[name].append(np.full(n, OUT))
                hit[name].append(np.zeros(n))
                continue
            among = columns[(name, int(view[own]))]
            some = scores[:, among]
            guess[name].append(among[some.argmax(axis=1)])
            hit[name].append(hits_at(some, np.full(n, np.searchsorted(among, own)), 1))
    return ClassAnswers(
        candidates,
        np.concatenate(image),
        np.concatenate(truth),
        np.concatenate(seen),
        np.concatenate(top5),
        {name: np.concatenate(v) for name, v in guess.items()},
        {name: np.concatenate(v) for name, v in hit.items()},
    )
