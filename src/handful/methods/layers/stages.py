"""Methods that first pre-train on batches and then learn from tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from torch import nn

from handful.errors import Mismatch
from handful.methods.embedded import EmbeddedLearner
from handful.methods.layers.pretrained import Pretrained
from handful.methods.schedule import Schedule
from handful.nets.compute import Compute
from handful.tasks.rule import Rule


@dataclass(frozen=True, kw_only=True)
class Staged(Pretrained):
    """Base of methods with two stages: cross-entropy over the training classes, then tasks.

    Parameters
    ----------
    pretrain
        The first stage's schedule; ``schedule`` is the second's. Both see the same training rule.

    Notes
    -----
    ``first`` and ``second`` name the modules that each stage trains (dotted names reach inside a module); the others
    stand still, their batch norms at the statistics they have and nothing dropped.
    """

    schedule: Schedule = field(default_factory=Schedule)
    pretrain: Schedule = field(default_factory=lambda: Schedule(steps=2000, augment=("crop", "flip", "jitter")))

    trains: ClassVar[Literal["tasks", "batches", "no"]] = "tasks"
    first: ClassVar[tuple[str, ...]] = ("backbone", "classifier")
    second: ClassVar[tuple[str, ...]] = ("backbone",)

    def meta_fit(
        self, train: Rule | None, valid: Rule | None = None, *, compute: Compute | None = None, keep: Path | None = None
    ) -> EmbeddedLearner:
        from handful.methods.training import train_on_batches, train_on_tasks

        if train is None:
            raise Mismatch(f"{self.name} has to know the images' shape: give meta_fit a rule, or use untrained(shape)")
        train.check()
        learner = self.untrained(train.image_shape, train.n_classes, compute or Compute())
        only(learner.modules, self.first)
        stage = self.with_options(schedule=self.pretrain)
        train_on_batches(stage, learner, train, None, keep / "pretrain" if keep else None)
        only(learner.modules, self.second)
        train_on_tasks(self, learner, train, valid, keep)
        return learner


def only(modules: nn.ModuleDict, names: tuple[str, ...]) -> None:
    """Let the named modules learn and hold all others still, those around a learning one apart."""
    for name, layer in modules.named_modules():
        handle = layer.__dict__.pop("_held", None)
        if handle is not None:
            handle.remove()
        learns = any(name == n or name.startswith(f"{n}.") for n in names)
        around = not name or any(n.startswith(f"{name}.") for n in names)
        for parameter in layer.parameters(recurse=False):
            parameter.requires_grad_(learns)
        if not learns and not around:
            layer.__dict__["_held"] = layer.register_forward_pre_hook(_hold)


def _hold(layer: nn.Module, inputs: Any) -> None:
    """Training turns every module's training mode on; one that stands still turns its own off."""
    layer.eval()
