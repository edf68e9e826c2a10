"""How well a score of refusal tells queries of a task's classes from strangers, and what refusing by it gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy import stats

from handful import registry
from handful.metrics.accuracy import accuracies
from handful.metrics.base import Metric
from handful.metrics.refusals import Evidence, all_scores
from handful.options import Checked
from handful.tasks.episode import NONE, Episode

SCORES = tuple(registry.table("refusals"))
MEASURES = ("auroc", "fpr95", "accepted", "open_accuracy", "open_f1")


@dataclass(frozen=True)
class StrangerScores(Metric, metaclass=Checked):
    """Columns ``MEASURE/SCORE`` for every score of refusal that applies to the learner.

    ``auroc``: how often a query of a known class has the larger score than a stranger (ties count half). ``fpr95``: the share of
    strangers accepted where 95% of the known queries are. With ``thresholds``, learned on validation classes for a promise
    (`handful.runs.promises`): ``accepted``, the share of strangers accepted; ``open_accuracy``, the share of all queries
    answered right, where the right answer to a stranger is a refusal; ``open_f1``, the mean F1 over the task's classes,
    strangers among the false positives. ``accuracy`` is that of the known queries without refusal.
    """

    thresholds: Mapping[str, float] = field(default_factory=dict)

    name: ClassVar[str] = "strangers"
    columns: ClassVar[tuple[str, ...]] = ("accuracy", *(f"{m}/{s}" for s in SCORES for m in MEASURES))
    main: ClassVar[str] = "auroc/probability"
    lower: ClassVar[frozenset[str]] = frozenset(f"{m}/{s}" for s in SCORES for m in ("fpr95", "accepted"))

    def row(self, episode: Episode, scores: np.ndarray, support_scores: np.ndarray | None = None) -> dict[str, float]:
        return self.row_of(episode, Evidence(scores))

    def row_of(self, episode: Episode, evidence: Evidence) -> dict[str, float]:
        """The row of a task from all that its refusal may look at."""
        truth, answer = episode.query_labels, evidence.scores.argmax(1)
        known = truth != NONE
        row = {"accuracy": accuracies(truth, answer, episode.n_classes)["accuracy"]}
        if known.all() or not known.any():
            return row
        for name, sure in all_scores(evidence).items():
            row[f"auroc/{name}"] = auroc(sure[known], sure[~known])
            row[f"fpr95/{name}"] = accepted_at(sure[known], sure[~known])
            if name in self.thresholds:
                given = np.where(sure > self.thresholds[name], answer, NONE)
                row[f"accepted/{name}"] = float((given[~known] != NONE).mean())
                row[f"open_accuracy/{name}"] = float((given == truth).mean())
                row[f"open_f1/{name}"] = open_f1(truth, given, episode.n_classes)
        return row


def auroc(known: np.ndarray, strangers: np.ndarray) -> float:
    """The area under the curve of a score that is larger for known queries."""
    ranks = stats.rankdata(np.concatenate([known, strangers]))[: len(known)]
    return float((ranks.sum() - len(known) * (len(known) + 1) / 2) / (len(known) * len(strangers)))


def accepted_at(known: np.ndarray, strangers: np.ndarray, share: float = 0.95) -> float:
    """The share of strangers accepted at the largest threshold that accepts at least a share of the known queries."""
    threshold = np.sort(known)[::-1][int(np.ceil(share * len(known))) - 1]
    return float((strangers >= threshold).mean())


def open_f1(truth: np.ndarray, given: np.ndarray, n: int) -> float:
    """Mean F1 over the known classes; refusing a known query misses it, answering a stranger is a false positive."""
    found = []
    for k in range(n):
        right, asked, answered = ((truth == k) & (given == k)).sum(), (truth == k).sum(), (given == k).sum()
        if asked:
            found.append(2 * right / (asked + answered))
    return float(np.mean(found))


def threshold_of(strangers: np.ndarray, promise: float) -> float:
    """The least threshold above which at most a share ``promise`` of new strangers is expected, from those of validation tasks.

    Of n + 1 exchangeable strangers the new one is among the largest k with probability k / (n + 1).
    """
    ordered = np.sort(strangers)[::-1]
    k = int(np.floor(promise * (len(ordered) + 1)))
    return float(ordered[k - 1]) if k >= 1 else float("inf")
