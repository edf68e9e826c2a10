"""What methods that cluster share: queries go to the nearest centroid, the support has scores of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import Mismatch
from handful.methods.answering import answers
from handful.methods.batch import Batch
from handful.methods.clustering.sinkhorn_kmeans import squared_distances
from handful.methods.contract import Method
from handful.methods.embedded import Embedded, EmbeddedLearner
from handful.methods.schedule import Schedule
from handful.metrics.clustering import unsupervised_accuracy
from handful.tasks import random
from handful.tasks.clustering import Clustering
from handful.tasks.rule import Rule


@dataclass(frozen=True, kw_only=True)
class Clusterer(Embedded):
    """Base of embedded methods that cluster the support and send each query to the nearest centroid.

    Where a task does show labels, the class means take the centroids' place: Prototypical Networks, the supervised
    accuracy of the same embedding. Training is on labelled tasks; a clustering rule is unwrapped for it.

    Parameters
    ----------
    temperature
        Divides the squared distances of the softmax conditionals; 1 as published.
    """

    temperature: float = 1.0

    needs: ClassVar[frozenset[str]] = frozenset({"images"})

    def cluster(self, b: Batch) -> tuple[Tensor, Tensor]:
        """Centroids ``(T, C, D)`` and support logits ``(T, S, C)`` of unlabelled tasks."""
        raise NotImplementedError

    def both(self, m: nn.ModuleDict, b: Batch) -> tuple[Tensor, Tensor | None]:
        if bool((b.y >= 0).any()):
            centroids = b.prototypes()
            support = self.logits(b.s, centroids)
        else:
            centroids, support = self.cluster(b)
        return b.close(self.logits(b.q, centroids)), b.close(support)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return self.both(m, b)[0]

    def logits(self, x: Tensor, centroids: Tensor) -> Tensor:
        """Softmax conditionals: p(j | x) ∝ exp(-|x - c_j|² / temperature)."""
        return -squared_distances(x, centroids) / self.temperature

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        logits = b.close(self.logits(b.q, b.prototypes()))
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-2)

    def for_training(self, train: Rule, valid: Rule | None) -> tuple[Method, Rule]:
        return super().for_training(labelled_tasks(self, train), valid)

    def selection_score(self, learner: EmbeddedLearner, valid: Rule, schedule: Schedule) -> float:
        """Accuracy on validation tasks; the unsupervised accuracy where their labels are hidden."""
        seed = random.subseed(schedule.seed, "valid")
        scores = []
        for found in answers(learner, valid, schedule.validate_tasks, seed):
            e, answer = found.episode, found.scores.argmax(1)
            if found.support is None:
                scores.append(found.accuracy)
                continue
            support = found.support.argmax(1)
            scores.append(unsupervised_accuracy(e.support_labels, support, e.query_labels, answer, e.n_classes))
        return float(np.mean(scores))


def labelled_tasks(method: Embedded, train: Rule) -> Rule:
    """The rule inside a clustering rule: methods that cluster learn from the labels of the training classes."""
    if isinstance(train, Clustering):
        train = train.of
    if method.trains == "tasks" and "labels" not in train.shows:
        raise Mismatch(
            f"{method.name} is trained with the labels of the training classes, which {train.name} tasks hide"
        )
    return train


def with_weights_of(learner: EmbeddedLearner, method: Embedded) -> EmbeddedLearner:
    """Another method on the same trained backbone: clusterings compared on one embedding."""
    other = method.untrained(learner.shape, learner.n_classes, learner.compute)
    state: dict[str, Any] = learner.backbone.state_dict()
    with torch.no_grad():
        other.backbone.load_state_dict(state)
    return other
