"""The one schedule of training: optimiser, rate, length, augmentation, selection."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import nn

from handful.errors import BadInput
from handful.options import Checked


@dataclass(frozen=True, kw_only=True)
class Schedule(metaclass=Checked):
    """How a method is trained, from tasks or from batches.

    Parameters
    ----------
    steps
        Optimiser steps; each sees ``tasks`` tasks, or a batch of ``batch`` images.
    rate, optimiser, momentum, weight_decay
        As in torch; ``adam``, ``adamw`` or ``sgd`` (with Nesterov momentum).
    halve_every, milestones, decay, cosine
        The rate is halved every so many steps; multiplied by ``decay`` at each milestone (a step, or below 1 a share of all
        steps, so that it moves along with a longer training); and with ``cosine`` falls to
        nothing along half a cosine, from the end of the warm-up to the last step (Loshchilov & Hutter, "SGDR", ICLR 2017).
    warm_up
        Number of first steps over which the rate rises evenly to its full height.
    augment
        Any of ``crop`` or ``resized-crop``, ``flip``, ``jitter``, drawn anew for every image and step.
    validate_every, validate_tasks, select
        Validate on so many tasks; keep the ``best`` or the ``last`` state.
    seed
        The training seed: initialisation, order of tasks, augmentation, dropout.
    """

    name: ClassVar[str] = "schedule"

    steps: int = 1000
    tasks: int = 1
    batch: int = 64
    optimiser: Literal["adam", "adamw", "sgd"] = "adam"
    rate: float = 1e-3
    momentum: float = 0.9
    weight_decay: float = 0.0
    halve_every: int = 0
    milestones: tuple[float, ...] = ()
    decay: float = 0.1
    cosine: bool = field(default=False, metadata={"later": True})
    warm_up: int = field(default=0, metadata={"later": True})
    clip: float = 0.0
    accumulate: int = 1
    augment: tuple[Literal["crop", "resized-crop", "flip", "jitter"], ...] = ()
    validate_every: int = 0
    validate_tasks: int = 100
    select: Literal["best", "last"] = "best"
    checkpoint_every: int = 200
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "tasks", "batch", "validate_tasks", "checkpoint_every", "accumulate"):
            if getattr(self, name) < (0 if name == "steps" else 1):
                raise BadInput(f"schedule.{name} must be at least {0 if name == 'steps' else 1}")
        if self.rate <= 0:
            raise BadInput(f"schedule.rate must be above 0, not {self.rate}")
        if any(m <= 0 for m in self.milestones):
            raise BadInput("schedule.milestones are steps, or shares of all steps above 0 and below 1")
        if self.warm_up < 0:
            raise BadInput(f"schedule.warm_up must be at least 0, not {self.warm_up}")

    def optimiser_for(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        if self.optimiser == "sgd":
            return torch.optim.SGD(
                parameters, self.rate, self.momentum, weight_decay=self.weight_decay, nesterov=self.momentum > 0
            )
        kind = torch.optim.Adam if self.optimiser == "adam" else torch.optim.AdamW
        return kind(parameters, self.rate, weight_decay=self.weight_decay)

    def rate_at(self, step: int) -> float:
        """The learning rate of a step, a pure function so that a resumed run goes on exactly."""
        rate = self.rate
        if step < self.warm_up:
            rate *= (step + 1) / self.warm_up
        elif self.cosine:
            rate *= (1 + math.cos(math.pi * (step - self.warm_up) / max(1, self.steps - self.warm_up))) / 2
        if self.halve_every:
            rate *= 0.5 ** (step // self.halve_every)
        return rate * self.decay ** sum(step >= (m if m >= 1 else round(m * self.steps)) for m in self.milestones)
