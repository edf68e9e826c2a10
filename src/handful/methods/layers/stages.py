"""Methods that first pre-train on batches and then learn from tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from handful.methods.layers.pretrained import Pretrained
from handful.methods.schedule import Schedule
from handful.methods.stages import Stage


@dataclass(frozen=True, kw_only=True)
class Staged(Pretrained):
    """Base of methods with two stages: cross-entropy over the training classes, then tasks.

    Parameters
    ----------
    pretrain
        The first stage's schedule; ``schedule`` is the second's. Both see the same training rule.

    Notes
    -----
    ``first`` and ``second`` name the modules that each stage trains (see `Stage`).
    """

    schedule: Schedule = field(default_factory=Schedule)
    pretrain: Schedule = field(default_factory=lambda: Schedule(steps=2000, augment=("crop", "flip", "jitter")))

    first: ClassVar[tuple[str, ...]] = ("backbone", "classifier")
    second: ClassVar[tuple[str, ...]] = ("backbone",)

    def stages(self) -> list[Stage]:
        return [
            Stage("batches", self.pretrain, learns=self.first, folder="pretrain", validates=False),
            Stage("tasks", self.schedule, learns=self.second),
        ]
