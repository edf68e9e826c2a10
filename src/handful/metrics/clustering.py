"""Scores of clusterings: accuracy under the best one-to-one match, NMI, ARI, and the match carried to the query."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.optimize import linear_sum_assignment

from handful.errors import Mismatch
from handful.metrics.base import Metric
from handful.tasks.episode import Episode


def match(truth: np.ndarray, clusters: np.ndarray, n: int) -> np.ndarray:
    """The class of each cluster under the one-to-one match with most points right (the Hungarian algorithm).

    ``n`` is the number of classes; with more clusters than classes the clusters left over get class -1, which is never
    right.
    """
    k = max(n, int(clusters.max()) + 1 if len(clusters) else 0)
    counts = np.zeros((k, n), dtype=np.int64)
    np.add.at(counts, (clusters, truth), 1)
    found = np.full(k, -1, dtype=np.int64)
    cluster, label = linear_sum_assignment(counts, maximize=True)
    found[cluster] = label
    return found


def clustering_accuracy(truth: np.ndarray, clusters: np.ndarray, n: int) -> float:
    """Share of points right under the best match on these points."""
    return float((match(truth, clusters, n)[clusters] == truth).mean()) if len(truth) else float("nan")


def unsupervised_accuracy(
    support_truth: np.ndarray, support: np.ndarray, query_truth: np.ndarray, query: np.ndarray, n: int
) -> float:
    """Share of queries right under the best match on the support."""
    if not len(query_truth):
        return float("nan")
    found = match(support_truth, support, max(n, int(query.max()) + 1))
    return float((found[query] == query_truth).mean())


class ClusteringScores(Metric):
    """How well the support was clustered: accuracy under the best match, and NMI and ARI (scikit-learn)."""

    name: ClassVar[str] = "clustering"
    columns: ClassVar[tuple[str, ...]] = ("clustering", "nmi", "ari")
    main: ClassVar[str] = "clustering"

    def row(self, episode: Episode, scores: np.ndarray, support_scores: np.ndarray | None = None) -> dict[str, float]:
        from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

        truth, clusters = episode.support_labels, answered(support_scores)
        return {
            "clustering": clustering_accuracy(truth, clusters, episode.n_classes),
            "nmi": float(normalized_mutual_info_score(truth, clusters)),
            "ari": float(adjusted_rand_score(truth, clusters)),
        }


class Unsupervised(Metric):
    """How well the queries were classified: clusters matched with classes on the support, and, as an upper bound that
    looks at the answers, on the queries themselves."""

    name: ClassVar[str] = "unsupervised"
    columns: ClassVar[tuple[str, ...]] = ("unsupervised", "query_matched")
    main: ClassVar[str] = "unsupervised"

    def row(self, episode: Episode, scores: np.ndarray, support_scores: np.ndarray | None = None) -> dict[str, float]:
        clusters, n = scores.argmax(1) if len(scores) else np.zeros(0, dtype=np.int64), episode.n_classes
        truth = episode.query_labels
        return {
            "unsupervised": unsupervised_accuracy(episode.support_labels, answered(support_scores), truth, clusters, n),
            "query_matched": clustering_accuracy(truth, clusters, n),
        }


def answered(support_scores: np.ndarray | None) -> np.ndarray:
    if support_scores is None:
        raise Mismatch("the learner gave no clusters for the support; clustering scores need a clustering method")
    return np.asarray(support_scores).argmax(1)
