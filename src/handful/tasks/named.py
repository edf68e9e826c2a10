"""Any rule whose learners may read what the classes are called."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from handful.tasks.episode import Episode
from handful.tasks.wrapper import Wrapper


@dataclass(frozen=True)
class Named(Wrapper):
    """The tasks of another rule, with the names of their classes shown: for encoders of images and texts.

    A name says more than a number: an encoder that has met the word has seen such images. Compare runs of this rule with
    each other.
    """

    name: ClassVar[str] = "named"
    wraps: ClassVar[frozenset[str]] = frozenset()

    @property
    def shows(self) -> frozenset[str]:
        return self.of.shows | {"texts"}

    def changed(self, episode: Episode, seed: int) -> Episode:
        return dataclasses.replace(episode, shows=self.shows)
