"""Training on tasks for methods whose loss needs the images themselves: rotations, attacks, the training class of each image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from handful.methods.augment import augment
from handful.methods.batch import PADDING, Batch, pad
from handful.methods.embedded import Embedded, EmbeddedLearner
from handful.methods.stages import Loss, Stage
from handful.methods.training import Drawn, step_generator
from handful.tasks.episode import Task
from handful.tasks.rule import Rule


@dataclass
class Images:
    """The images of a step's tasks in one tensor, and how to cut their features into a batch.

    Parameters
    ----------
    x
        Normalised images ``(n, c, h, w)``: support then queries of the first task, then of the next.
    classes
        ``(n,)`` the training class of each image.
    labels
        ``(T, Q)`` query labels within the tasks, negative at padding.
    generator
        The step's own randomness.
    """

    tasks: list[Task]
    x: Tensor
    classes: Tensor
    labels: Tensor
    generator: torch.Generator

    def batch(self, features: Tensor) -> Batch:
        """Features of all images, in the order of ``x``, as a padded batch of tasks."""
        cut, at = [], 0
        for t in self.tasks:
            a, b = len(t.support), len(t.query)
            cut.append((features[at : at + a], t.support.labels, features[at + a : at + a + b]))
            at += a + b
        return pad(cut, [t.support.shape for t in self.tasks], [t.support.seed for t in self.tasks])

    def queries(self) -> Tensor:
        """``(n,)`` true where an image is a query."""
        flags = [x for t in self.tasks for x in (np.zeros(len(t.support), bool), np.ones(len(t.query), bool))]
        return torch.as_tensor(np.concatenate(flags), device=self.x.device)


@dataclass(frozen=True, kw_only=True)
class OnImages(Embedded):
    """Base of embedded methods that train on tasks with `image_loss` instead of `task_loss`.

    ``over_classes``: that loss also names the training class of each image.
    """

    over_classes: ClassVar[bool] = False

    def image_loss(self, m: nn.ModuleDict, images: Images) -> Tensor:
        """Training loss of a step; by default the task loss of the embedded images."""
        return self.task_loss(m, images.batch(self.embed(m, images.x)), images.labels)

    def embed(self, m: nn.ModuleDict, x: Tensor) -> Tensor:
        backbone: Any = m["backbone"]
        return (backbone.maps(x) if self.maps else backbone(x)).float()

    def stages(self) -> list[Stage]:
        labels: tuple[Any, ...] = ("global", "local") if self.over_classes else ("local",)
        return [Stage("tasks", self.schedule, loss=self.loss_on_images, labels=labels)]

    def loss_on_images(self, learner: EmbeddedLearner, train: Rule) -> Loss:
        drawn = Drawn(train, self.schedule)
        class_of = {int(row): int(c) for row, c in zip(train.part.rows, train.part.classes, strict=True)}

        def loss(step: int) -> Tensor:
            generator = step_generator(self.schedule, step)
            images = read(learner, drawn.tasks(step), class_of, self.schedule.augment, generator)
            with learner.compute.autocast():
                return self.image_loss(learner.modules, images)

        return loss


def read(
    learner: EmbeddedLearner,
    tasks: list[Task],
    class_of: dict[int, int],
    kinds: tuple[str, ...],
    generator: torch.Generator,
) -> Images:
    """The images of some tasks, augmented and normalised."""
    device = learner.compute.device
    pixels = np.concatenate([x for t in tasks for x in (t.support.images, t.query.images) if x is not None])
    rows = np.concatenate([x for t in tasks for x in (t.episode.support, t.episode.query)])
    labels = np.full((len(tasks), max(len(t.labels) for t in tasks)), PADDING, dtype=np.int64)
    for i, t in enumerate(tasks):
        labels[i, : len(t.labels)] = t.labels
    x = learner.backbone.normalise(augment(torch.from_numpy(pixels).to(device), kinds, generator))  # type: ignore[operator]
    classes = torch.tensor([class_of[int(r)] for r in rows], device=device)
    return Images(tasks, x, classes, torch.as_tensor(labels, device=device), generator)
