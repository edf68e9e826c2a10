"""What rules that wrap another rule share: the rule inside, its part, and what it shows."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar

from handful.data.collection import Part
from handful.errors import BadInput, Mismatch
from handful.tasks.episode import Episode
from handful.tasks.nway import NWay
from handful.tasks.rule import Rule


@dataclass(frozen=True)
class Wrapper(Rule):
    """The tasks of another rule, each changed in one way.

    Parameters
    ----------
    of
        The rule whose tasks these are: labelled images, one label axis; ``NWay(part)`` by default.
    """

    part: Part = field(default=None)  # type: ignore[assignment]
    of: Rule = field(default=None)  # type: ignore[assignment]

    wraps: ClassVar[frozenset[str]] = frozenset({"images", "labels"})
    """What the rule inside must show."""

    def __post_init__(self) -> None:
        if self.of is None and self.part is None:
            raise BadInput(f"{self.name} needs the rule that it changes: {type(self).__name__}(of=NWay(part, ...))")
        inner = NWay(self.part) if self.of is None else self.of
        if inner.axes != 1 or not self.wraps <= inner.shows:
            raise Mismatch(
                f"{self.name} cannot wrap the tasks of {inner.name}; wrap a rule of {' and '.join(sorted(self.wraps))} with one "
                "label axis"
            )
        object.__setattr__(self, "of", inner)
        object.__setattr__(self, "part", inner.part)

    @property
    def shows(self) -> frozenset[str]:
        return self.of.shows

    @property
    def metrics(self) -> tuple[str, ...]:
        return self.of.metrics

    def on(self, part: Part) -> Rule:
        return dataclasses.replace(self, part=part, of=self.of.on(part))

    def check(self) -> None:
        self.of.check()

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        return [self.changed(episode, seed) for episode in self.of.draw_block(seed, start, stop)]

    def changed(self, episode: Episode, seed: int) -> Episode:
        """One task of the rule inside as this rule has it; a function of the two alone."""
        raise NotImplementedError

    def _share(self, what: str) -> None:
        """Refuse a parameter that is no share."""
        value: Any = getattr(self, what)
        if not 0 <= value < 1:
            raise BadInput(f"{what} of {self.name} must be at least 0 and below 1, not {value!r}")
