"""Supports with wrong labels, and supports whose classes are of unequal size."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from handful.errors import BadInput
from handful.tasks import random
from handful.tasks.episode import Episode
from handful.tasks.nearness import nearness
from handful.tasks.wrapper import Wrapper


@dataclass(frozen=True)
class Noisy(Wrapper):
    """The tasks of another rule with a share of the support's labels wrong; the queries' are right.

    Parameters
    ----------
    noise
        Share of the labels of each class that are wrong, rounded: 0.2 of five shots is one, of one shot none.
    kind
        ``symmetric``: any other class of the task, each as likely. ``confusable``: the class of the task that is nearest by
        ``near``, as a person would mistake it.
    near
        How near two classes are: ``pixels`` (their mean images), ``words:FILE`` (vectors of their names), ``tree:FILE``
        (``tree:wordnet``, or child,parent rows) or ``matrix:FILE`` (a .npy over the part's classes, larger is nearer, from any
        encoder).
    """

    noise: float = 0.2
    kind: Literal["symmetric", "confusable"] = "symmetric"
    near: str = "pixels"

    name: ClassVar[str] = "noisy"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._share("noise")

    def check(self) -> None:
        super().check()
        if self.kind == "confusable":
            _ = self._near

    @cached_property
    def _near(self) -> np.ndarray:
        return nearness(self.part, self.near)

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {name: code for code, name in enumerate(self.part.class_names)}

    def changed(self, episode: Episode, seed: int) -> Episode:
        labels, ways, number = episode.support_labels, episode.n_classes, np.asarray([episode.number])
        lots = random.words(seed, "noisy images", number, len(labels))[0]
        steps = 1 + random.below(random.words(seed, "noisy labels", number, len(labels))[0], ways - 1)
        if self.kind == "confusable":
            codes = [self._codes[name] for name in episode.names[0]]
            among = self._near[np.ix_(codes, codes)]
            np.fill_diagonal(among, -np.inf)
            wrong = among.argmax(1)[labels]
        else:
            wrong = (labels + steps) % ways
        given = labels.copy()
        for k in range(ways):
            mine = np.flatnonzero(labels == k)
            flipped = mine[np.argsort(lots[mine], kind="stable")][: round(self.noise * len(mine))]
            given[flipped] = wrong[flipped]
        return dataclasses.replace(
            episode, support_labels=given, side={**episode.side, "wrong_labels": int((given != labels).sum())}
        )


@dataclass(frozen=True)
class LongTail(Wrapper):
    """The tasks of another rule whose classes keep unequal shots, falling from all to one ``ratio``-th of them.

    Class i of W, in a random order, keeps shots · ratio^(-i / (W - 1)) images, rounded, at least one: the exponential
    profile of Cui et al. (CVPR 2019). The queries stay balanced.

    Parameters
    ----------
    ratio
        Images of the largest class for each image of the smallest.
    """

    ratio: float = 10.0

    name: ClassVar[str] = "long-tail"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.ratio < float("inf"):
            raise BadInput(f"ratio of long-tail must be at least 1, not {self.ratio!r}")

    def changed(self, episode: Episode, seed: int) -> Episode:
        ways, labels = episode.n_classes, episode.support_labels
        lots = random.words(seed, "tail", np.asarray([episode.number]), ways + len(labels))[0]
        rank = np.argsort(np.argsort(lots[:ways], kind="stable"), kind="stable")
        kept = []
        for k in range(ways):
            mine = np.flatnonzero(labels == k)
            n = max(1, round(len(mine) * self.ratio ** (-rank[k] / max(1, ways - 1))))
            kept.append(mine[np.argsort(lots[ways:][mine], kind="stable")][:n])
        rows = np.sort(np.concatenate(kept))
        return dataclasses.replace(episode, support=episode.support[rows], support_labels=labels[rows])
