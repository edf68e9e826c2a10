"""Methods that are an embedding and a small head: most of the field.

A method of this kind is a frozen dataclass with a `head`; training, saving, evaluating a thousand tasks as one tensor
expression and the contract come from here.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import Mismatch
from handful.methods.batch import Batch, pad
from handful.methods.contract import Method, Predictor
from handful.methods.modules import ModuleLearner
from handful.methods.schedule import Schedule
from handful.methods.stages import Stage
from handful.nets import build as build_net
from handful.nets.compute import Compute
from handful.nets.features import embed_images
from handful.nets.given import Net
from handful.nets.weights import load_state
from handful.tasks.episode import Query, Support


@dataclass(frozen=True, kw_only=True)
class Embedded(Method):
    """Base of methods with an embedding and a head.

    Parameters
    ----------
    net
        Backbone spec, such as ``conv4``, ``resnet12``, ``lite0:size=224``, ``resnet18:weights=FILE``, ``pixels``.
    schedule
        How to train it.

    Notes
    -----
    Class variables: ``maps`` asks for feature maps instead of vectors; ``together`` bounds how many tasks one call of the
    head takes (lower it for heads whose tensors are large).
    """

    net: Net = "conv4"
    schedule: Schedule = field(default_factory=Schedule)

    maps: ClassVar[bool] = False
    together: ClassVar[int] = 64

    # what a method fills in

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        """Trainable modules beside the backbone (a classifier over the training classes, a relation network, ...)."""
        return {}

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        """Query logits ``(T, Q, C)`` of a batch of tasks."""
        raise NotImplementedError

    def both(self, m: nn.ModuleDict, b: Batch) -> tuple[Tensor, Tensor | None]:
        """Query logits and, for methods that cluster, support logits."""
        return self.head(m, b), None

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        """Training loss on tasks; labels ``(T, Q)`` with a negative number at padding. Default: cross-entropy of the head."""
        logits = self.head(m, b)
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-2)

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        """Training loss on a batch of normalised images."""
        raise NotImplementedError

    # what it gets

    def modules(self, shape: tuple[int, ...], n_classes: int) -> nn.ModuleDict:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.schedule.seed)
            backbone = build_net(self.net, shape, self.schedule.seed)
            return nn.ModuleDict({"backbone": backbone, **self.extras(backbone, n_classes)})

    def stages(self) -> list[Stage]:
        """Training on tasks, by the head that answers them, unless a method says otherwise."""
        return [Stage("tasks", self.schedule)]

    def untrained(self, shape: tuple[int, ...], n_classes: int = 2, compute: Compute | None = None) -> EmbeddedLearner:
        return EmbeddedLearner(
            self, self.modules(tuple(shape), n_classes), tuple(shape), n_classes, compute or Compute()
        )

    def load(self, state: dict[str, Tensor], facts: dict[str, Any], compute: Compute, where: str) -> EmbeddedLearner:
        learner = self.untrained(tuple(facts["shape"]), facts["n_classes"], compute)
        load_state(learner.modules, state, where)
        return learner


class EmbeddedLearner(ModuleLearner):
    """A backbone and a head; `fit` embeds the support, `predict` embeds the queries and calls the head."""

    embeds: ClassVar[bool] = True

    method: Embedded
    n_classes: int

    def twin(self) -> EmbeddedLearner:
        weights = (*self.backbone.parameters(), *self.backbone.buffers())
        return copy.deepcopy(self, {id(t): t for t in weights})  # heads never change them, and they may be large

    def embed(self, images: np.ndarray) -> Tensor:
        """Features of images, in padded batches of one size, on the learner's device."""
        return embed_images(self.backbone, self.fitting(images), self.compute, self.method.maps)

    def head(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        with torch.no_grad():
            return self.method.both(self.modules, batch)

    def fit(self, support: Support) -> EmbeddedPredictor:
        with self.compute.here():
            images = support.images if support.images is not None else np.zeros((0, *self.shape), dtype=np.uint8)
            return EmbeddedPredictor(self, support, self.embed(images))


class EmbeddedPredictor(Predictor):
    def __init__(self, learner: EmbeddedLearner, support: Support, features: Tensor):
        self.learner, self.support, self.features = learner, support, features

    def _both(self, query: Tensor) -> tuple[Tensor, Tensor | None]:
        support = self.support
        batch = pad(
            [(self.features, support.labels, query)],
            [support.shape],
            [support.seed],
            [support.sizes],
            [support.descriptions],
            [support.texts],
        )
        return self.learner.head(batch)

    def predict(self, query: Query) -> np.ndarray:
        with self.learner.compute.here():
            return self._both(self.learner.embed(query.images))[0][0].float().cpu().numpy()

    def support_scores(self) -> np.ndarray:
        with self.learner.compute.here():
            scores = self._both(self.features[:1])[1]
        if scores is None:
            raise Mismatch(f"{self.learner.method.name} does not cluster its support; choose a clustering method")
        return scores[0].float().cpu().numpy()
