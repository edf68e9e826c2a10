"""Methods that first pre-train on batches and then learn from tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from handful.methods.embedded import EmbeddedLearner
from handful.methods.layers.pretrained import Pretrained
from handful.methods.schedule import Schedule
from handful.methods.stages import Stage
from handful.nets.compute import Compute


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

    def load(self, state: dict[str, Tensor], facts: dict[str, Any], compute: Compute, where: str) -> EmbeddedLearner:
        """Folders of versions in which a method had no first stage have nothing of what that stage alone trains."""
        if "pretrain" not in facts.get("options", {"pretrain": ""}):
            alone = tuple(f"{name}." for name in set(self.first) - set(self.second))
            fresh = self.untrained(tuple(facts["shape"]), facts["n_classes"]).state()
            state = {**{k: v for k, v in fresh.items() if k.startswith(alone)}, **state}
        return super().load(state, facts, compute, where)
