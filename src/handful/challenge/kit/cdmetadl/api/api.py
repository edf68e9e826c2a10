"""The three classes that a submission overrides: MetaLearner makes a Learner, a Learner makes a Predictor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from ..ingestion.data_generator import Task

__all__ = ["Learner", "MetaLearner", "Predictor", "Task"]

SupportSet = tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, int]


class Predictor:
    """Answers the queries of one task."""

    def __init__(self) -> None:
        pass

    def predict(self, query_set: torch.Tensor) -> np.ndarray:
        """Give logits or probabilities (n, ways), or labels (n,), for images (n, channels, height, width) in [0, 1]."""
        raise NotImplementedError("a Predictor must implement predict(query_set)")


class Learner:
    """Learns one task from its support set. Must be constructible without arguments."""

    def __init__(self) -> None:
        pass

    def fit(self, support_set: SupportSet) -> Predictor:
        """Learn from (X, y, original_y, n_ways, k_shots); at meta-test original_y is no more than y renamed."""
        raise NotImplementedError("a Learner must implement fit(support_set)")

    def save(self, path_to_save: str) -> None:
        """Write the learner as regular files into the existing folder ``path_to_save``."""
        raise NotImplementedError("a Learner must implement save(path_to_save)")

    def load(self, path_to_load: str) -> None:
        """Read back what save wrote."""
        raise NotImplementedError("a Learner must implement load(path_to_load)")


class MetaLearner:
    """Learns to learn, from a generator of tasks or of batches.

    ``train_classes`` is the ways of a training task, or all training classes when batches are asked for;
    ``total_classes`` is all training classes. ``self.log(data, predictions, loss, meta_train)`` reports progress.
    """

    def __init__(self, train_classes: int, total_classes: int, logger: Any) -> None:
        self.train_classes = train_classes
        self.total_classes = total_classes
        self.log = logger.log

    def meta_fit(
        self,
        meta_train_generator: Callable[[int], Iterable[Any]],
        meta_valid_generator: Callable[[int], Iterable[Task]] | None,
    ) -> Learner:
        """Learn from ``generator(n)``, which yields n tasks (or batches), and give the Learner to be meta-tested."""
        raise NotImplementedError("a MetaLearner must implement meta_fit(meta_train_generator, meta_valid_generator)")
