"""Clustering scores and CSCC by hand, and against references."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from handful.errors import BadInput, Mismatch
from handful.metrics.clustering import ClusteringScores, Unsupervised, clustering_accuracy, match, unsupervised_accuracy
from handful.metrics.cscc import cscc, quadrature
from handful.tasks.episode import Episode


def test_the_best_match_is_the_best_of_all_permutations():
    rng = np.random.default_rng(0)
    for _ in range(30):
        truth, clusters = rng.integers(0, 4, 15), rng.integers(0, 4, 15)
        best = max(float((np.asarray(p)[clusters] == truth).mean()) for p in itertools.permutations(range(4)))
        assert clustering_accuracy(truth, clusters, 4) == pytest.approx(best)


def test_a_match_is_one_to_one_even_where_clusters_are_merged():
    truth, clusters = np.array([0, 0, 1, 1]), np.array([0, 0, 0, 0])
    assert clustering_accuracy(truth, clusters, 2) == 0.5
    assert sorted(match(truth, clusters, 2).tolist()) == [0, 1]


def test_clusters_beyond_the_number_of_classes_are_never_right():
    assert clustering_accuracy(np.array([0, 0, 1, 1]), np.array([0, 1, 2, 2]), 2) == 0.75


def test_the_queries_are_judged_by_the_match_on_the_support():
    support_truth, support = np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0])
    query_truth = np.array([0, 1, 1])
    assert unsupervised_accuracy(support_truth, support, query_truth, np.array([1, 0, 0]), 2) == 1.0
    assert unsupervised_accuracy(support_truth, support, query_truth, np.array([0, 1, 1]), 2) == 0.0
    assert np.isnan(unsupervised_accuracy(support_truth, support, query_truth[:0], query_truth[:0], 2))


def test_rows_of_an_episode():
    e = Episode(0, np.arange(4), np.array([0, 0, 1, 1]), np.arange(4, 6), np.array([0, 1]), (2,), (("a", "b"),))
    scores = np.eye(2)[[1, 0]]
    support = np.eye(2)[[1, 1, 0, 1]]
    row = ClusteringScores().row(e, scores, support) | Unsupervised().row(e, scores, support)
    assert row["clustering"] == 0.75 and row["unsupervised"] == 1.0 and row["query_matched"] == 1.0
    # By hand: entropies log 2 and -(3/4 log 3/4 + 1/4 log 1/4), mutual information of the 2x2 table.
    p, a, b = np.array([[0.5, 0.0], [0.25, 0.25]]), np.array([0.5, 0.5]), np.array([0.75, 0.25])
    mutual = sum(p[i, j] * np.log(p[i, j] / a[i] / b[j]) for i in range(2) for j in range(2) if p[i, j])
    assert row["nmi"] == pytest.approx(mutual / ((-(a * np.log(a)).sum() - (b * np.log(b)).sum()) / 2))
    assert row["ari"] == pytest.approx(0.0)
    with pytest.raises(Mismatch):
        ClusteringScores().row(e, scores, None)


@pytest.mark.parametrize(
    "numbers, want",
    [
        ((26.40, 0.88, 44.12, 1.08), (59.83, 2.47)),
        ((55.3, 0.5, 68.7, 0.5), (80.5, 0.9)),
        ((66.25, 1.12, 81.93, 0.97), (80.86, 1.67)),
    ],
)
def test_quadrature_gives_the_papers_intervals(numbers, want):
    ratio, half = quadrature(*numbers)
    assert 100 * ratio == pytest.approx(want[0], abs=0.06) and 100 * half == pytest.approx(want[1], abs=0.06)


def test_the_paired_bootstrap_is_narrower_where_tasks_go_together_and_covers():
    rng = np.random.default_rng(0)
    easy = rng.uniform(0.4, 1.0, 400)
    a, b = easy * 0.8 + rng.normal(0, 0.01, 400), easy
    estimate = cscc(a, b)
    assert estimate.low < 0.8 < estimate.high and estimate.value == pytest.approx(a.mean() / b.mean())
    alone = quadrature(a.mean(), 1.96 * a.std() / 20, b.mean(), 1.96 * b.std() / 20)[1]
    assert estimate.half < alone / 5
    # Independent accuracies: both intervals agree.
    c = rng.uniform(0.4, 1.0, 400) * 0.8
    wide = quadrature(c.mean(), 1.96 * c.std() / 20, b.mean(), 1.96 * b.std() / 20)[1]
    assert cscc(c, b).half == pytest.approx(wide, rel=0.15)


def test_cscc_refuses_what_has_no_ratio():
    with pytest.raises(Mismatch):
        cscc(np.ones(3), np.ones(4))
    for a, b in ((np.ones(0), np.ones(0)), (np.ones(2), np.zeros(2)), (np.array([np.nan]), np.ones(1))):
        with pytest.raises(BadInput):
            cscc(a, b)
    with pytest.raises(BadInput):
        quadrature(0.0, 0.1, 0.5, 0.1)
