"""Training as data: a method says in which stages it learns, and one runner (`training.walk`) walks them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from handful.methods.schedule import Schedule
from handful.tasks.rule import Rule

Loss = Callable[[int], Tensor]
"""The loss of a numbered micro-batch."""


@dataclass(frozen=True)
class Stage:
    """One stage of a method's training.

    Parameters
    ----------
    on
        What the training rule gives: ``batches`` for the method's `batch_loss`, ``tasks`` for its `task_loss`.
    schedule
        How long, by which optimiser, with which augmentation.
    learns
        Names of the modules that learn (dotted names reach inside a module); the others stand still, their batch norms at
        the statistics they have and nothing dropped. Empty: whatever learns already.
    folder
        Where below the training's own folder its checkpoint and log go.
    validates
        Whether validation tasks select its best state.
    loss
        A loss of the method's own in place of `batch_loss` or `task_loss`: from a learner and the training rule to the loss
        of each step.
    work
        In place of steps: what is computed at once from the learner, the training and the validation rule (class means, a
        calibration, a closed form).
    labels
        Which labels its loss looks at: ``global`` ones (over all training classes), ``local`` ones (of a task). By default
        what batches and tasks have.
    """

    on: Literal["batches", "tasks"]
    schedule: Schedule | None = None
    learns: tuple[str, ...] = ()
    folder: str = ""
    validates: bool = True
    loss: Callable[[Any, Rule], Loss] | None = None
    work: Callable[[Any, Rule, Rule | None], None] | None = None
    labels: tuple[Literal["global", "local"], ...] | None = None

    @property
    def uses(self) -> tuple[str, ...]:
        """The labels that it learns from."""
        return self.labels if self.labels is not None else ("global",) if self.on == "batches" else ("local",)


def trained_on(stages: list[Stage]) -> Literal["tasks", "batches", "no"]:
    """What a method with these stages is trained on; tasks, if any stage is."""
    kinds = {stage.on for stage in stages}
    return "tasks" if "tasks" in kinds else "batches" if kinds else "no"


def marks(stages: list[Stage], tunes: bool) -> str:
    """MetaCoCo's three tricks: global labels (GL), local labels (LL), tuning at test (TT), such as ``GL+TT``."""
    used = {label for stage in stages for label in stage.uses}
    found = {"GL": "global" in used, "LL": "local" in used, "TT": tunes}
    return "+".join(mark for mark, has in found.items() if has)


def only(modules: nn.Module, names: tuple[str, ...]) -> None:
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
