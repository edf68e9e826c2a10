"""Tasks that also ask about images of none of their classes."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from handful.errors import BadInput, Infeasible
from handful.tasks import random
from handful.tasks.episode import NONE, Episode
from handful.tasks.wrapper import Wrapper


@dataclass(frozen=True)
class Strangers(Wrapper):
    """The tasks of another rule in which a share of the queries is of classes that the support does not have.

    Their hidden answer is "none" (-1). Methods answer as before, among the classes of the support; a score of refusal
    (`handful.metrics.refusals`) says how sure an answer is, and the metric ``strangers`` how well that tells the two apart.

    Parameters
    ----------
    share
        Share of the queries of a task that are strangers.
    classes
        Number of classes that the strangers of a task are drawn from; 0: as many as the task has. They are of the task's own
        data set where that has enough other classes.
    """

    share: float = 0.5
    classes: int = 0

    name: ClassVar[str] = "strangers"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._share("share")
        if self.classes < 0:
            raise BadInput(f"classes of strangers must be at least 0, not {self.classes}")

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("strangers",)

    def check(self) -> None:
        super().check()
        self.draw_block(0, 0, 8)

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {name: code for code, name in enumerate(self.part.class_names)}

    def changed(self, episode: Episode, seed: int) -> Episode:
        known, share = len(episode.query), self.share
        m = round(known * share / (1 - share))
        if not m:
            return episode
        here = np.asarray([self._codes[name] for name in episode.names[0]])
        number = np.asarray([episode.number])
        others = self._others(here, self.classes or episode.n_classes)
        order = np.argsort(random.words(seed, "stranger classes", number, len(others))[0], kind="stable")
        members = self.part.members
        chosen = others[order[: self.classes or episode.n_classes]]
        pool = np.concatenate(
            [members.values[members.starts[c] : members.starts[c] + members.sizes[c]] for c in chosen]
        )
        if len(pool) < m:
            raise Infeasible(
                f"{self.part.id} has {len(pool)} images in the {len(chosen)} classes that strangers are drawn from, and a task "
                f"asks for {m}; lower share or the number of queries, or raise classes"
            )
        picked = pool[np.argsort(random.words(seed, "stranger images", number, len(pool))[0], kind="stable")[:m]]
        mixed = np.argsort(random.words(seed, "stranger places", number, known + m)[0], kind="stable")
        beside = {k: v for k, v in episode.side.items() if not (isinstance(v, np.ndarray) and len(v) == known)}
        return dataclasses.replace(
            episode,
            query=np.concatenate([episode.query, picked])[mixed],
            query_labels=np.concatenate([episode.query_labels, np.full(m, NONE)])[mixed],
            side={**beside, "strangers": m},
        )

    def _others(self, here: np.ndarray, wanted: int) -> np.ndarray:
        """Classes that the task does not have, of its own data set if they are enough."""
        free = np.setdiff1d(np.arange(self.part.n_classes), here)
        of_class, _ = self.part.datasets
        near = free[np.isin(of_class[free], of_class[here])]
        found = near if len(near) >= wanted else free
        if not len(found):
            raise Infeasible(
                f"{self.part.id} has no class beside the {len(here)} of a task, and strangers need at least one; ask for fewer "
                "ways, or another split"
            )
        return found
