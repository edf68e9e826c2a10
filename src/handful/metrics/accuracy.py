"""Accuracy of one task: plain, balanced, and normalised by the number of ways."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from handful.metrics.base import Metric
from handful.tasks.episode import Episode


class Accuracy(Metric):
    """Share of right answers; mean recall over classes; and that on a scale where guessing is 0.

    The normalised accuracy is (bac - 1/N) / (1 - 1/N), metadl Eq. 1-2: a constant answer scores 0 at every N, all wrong
    scores -1/(N-1).
    """

    name: ClassVar[str] = "accuracy"
    columns: ClassVar[tuple[str, ...]] = ("accuracy", "balanced", "normalised")
    main: ClassVar[str] = "accuracy"

    def row(self, episode: Episode, scores: np.ndarray, support_scores: np.ndarray | None = None) -> dict[str, float]:
        return accuracies(episode.query_labels, scores.argmax(1), episode.n_classes)


def accuracies(truth: np.ndarray, answer: np.ndarray, n: int) -> dict[str, float]:
    """Of the queries that are of a class of their task."""
    truth, answer = truth[truth >= 0], answer[truth >= 0]
    right = truth == answer
    total = np.bincount(truth, minlength=n)
    recall = np.bincount(truth, weights=right, minlength=n)[total > 0] / total[total > 0]
    balanced = float(recall.mean())
    return {"accuracy": float(right.mean()), "balanced": balanced, "normalised": normalised(balanced, n)}


def normalised(balanced: float, ways: int) -> float:
    """Balanced accuracy on the scale where guessing is 0 and perfection 1."""
    return (balanced - 1 / ways) / (1 - 1 / ways)
