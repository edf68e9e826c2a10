"""Calibration, conformal sets and refusal: cases by hand, other libraries' numbers, and planted truths."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from handful.metrics.calibration import (
    BINS,
    Calibration,
    Conformal,
    bins,
    debiased_ece,
    plain_ece,
    probabilities,
    threshold_for,
)
from handful.metrics.refusals import Evidence, all_scores, shrinkage, squared_mahalanobis
from handful.metrics.strangers import StrangerScores, accepted_at, auroc, open_f1, threshold_of
from handful.tasks.episode import NONE, Episode


def episode(truth, n):
    return Episode(
        0, np.arange(n), np.arange(n), np.arange(len(truth)), np.asarray(truth), (n,), (tuple("abcdefghij"[:n]),)
    )


def scores_of(p):
    return np.log(np.asarray(p, dtype=np.float64))


def test_a_task_by_hand():
    p = [[0.7, 0.2, 0.1], [0.1, 0.5, 0.4], [0.3, 0.3, 0.4]]
    row = Calibration().row(episode([0, 2, 2], 3), scores_of(p))
    assert row["nll"] == pytest.approx(-(np.log(0.7) + np.log(0.4) + np.log(0.4)) / 3)
    brier = [(0.3**2 + 0.2**2 + 0.1**2), (0.1**2 + 0.5**2 + 0.6**2), (0.3**2 + 0.3**2 + 0.6**2)]
    assert row["brier"] == pytest.approx(np.mean(brier))
    assert row["confidence"] == pytest.approx((0.7 + 0.5 + 0.4) / 3)
    assert row["ece"] == pytest.approx((0.3 + 0.5 + 0.6) / 3), "each in a bin of its own: right, wrong, right"


def test_log_loss_and_brier_are_scikit_learn_s():
    from sklearn.metrics import brier_score_loss, log_loss

    rng = np.random.default_rng(0)
    s, truth = rng.normal(size=(60, 4)), rng.integers(0, 4, 60)
    row, p = Calibration().row(episode(truth, 4), s), probabilities(s)
    assert row["nll"] == pytest.approx(log_loss(truth, p, labels=range(4)), abs=1e-6)
    assert row["brier"] == pytest.approx(brier_score_loss(truth, p, labels=range(4), scale_by_half=False), abs=1e-6)


def test_queries_of_no_class_are_left_out():
    s = np.random.default_rng(0).normal(size=(6, 3))
    truth = np.asarray([0, NONE, 2, 1, NONE, 1])
    a = Calibration().row(episode(truth, 3), s)
    b = Calibration().row(episode(truth[truth >= 0], 3), s[truth >= 0])
    assert a == b


def run_of(rng, tasks, warm):
    """Tasks whose answers are right as often as their probability says, told warmer or colder by ``warm``."""
    rows = []
    for _ in range(tasks):
        s = 2 * rng.normal(size=(75, 5))
        truth = np.asarray([rng.choice(5, p=p) for p in probabilities(s)])
        rows.append(Calibration().row(episode(truth, 5), s * warm))
    return pl.DataFrame(rows)


def test_a_calibrated_method_has_no_debiased_error_and_a_plain_one_far_above():
    frame = run_of(np.random.default_rng(0), 300, 1.0)
    e = Calibration().reduce(frame, "ece")
    assert abs(e.value) < 0.015 and e.low < 0.01
    assert frame["ece"].mean() > 0.05, "a task's own is biased"


def test_an_overconfident_method_shows_its_planted_error():
    rng = np.random.default_rng(1)
    frame, s = run_of(rng, 60, 3.0), 2 * rng.normal(size=(100_000, 5))
    p, shown = probabilities(s), probabilities(3 * s)
    planted = bins(shown.max(1), np.zeros(len(s)))
    planted[2] = np.bincount(
        np.clip(np.ceil(shown.max(1) * BINS).astype(int) - 1, 0, BINS - 1), weights=p.max(1), minlength=BINS
    )
    e = Calibration().reduce(frame, "ece")
    assert e.low - 0.01 < plain_ece(planted) < e.high + 0.01 and e.value > 0.1


def test_the_debiased_error_is_that_of_normal_resampling():
    """p-lambda/verified_calibration's normal_debiased_ce with p = 1: the error less its mean excess over resampled shares."""
    rng = np.random.default_rng(2)
    n = rng.integers(5, 40, BINS).astype(float)
    share, confidence = rng.uniform(0.2, 0.8, BINS).round(1), rng.uniform(0.1, 0.9, BINS)
    table = np.stack([n, n * confidence, n * share])
    weight = n / n.sum()
    plain = (weight * np.abs(share - confidence)).sum()
    drawn = rng.normal(share, np.sqrt(share * (1 - share) / n), (400_000, BINS))
    excess = (weight * np.abs(drawn - confidence)).sum(1).mean() - plain
    assert debiased_ece(table) == pytest.approx(plain - excess, abs=2e-4)
    assert plain_ece(table) == pytest.approx(plain)


def test_conformal_sets_by_hand_and_their_threshold():
    p = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.4, 0.35, 0.25]]
    row = Conformal(threshold=0.66).row(episode([0, 2, 1], 3), scores_of(p))
    assert row == {"coverage": pytest.approx(2 / 3), "worst_class_coverage": 0.0, "set_size": pytest.approx(4 / 3)}
    assert threshold_for(np.asarray([0.9, 0.8, 0.7, 0.6]), 0.4) == pytest.approx(0.3), (
        "ceil(5 * 0.6) = the third smallest"
    )
    assert threshold_for(np.asarray([0.9, 0.8]), 0.1) == 1.0, "two are too few for one in ten"


def test_conformal_sets_cover_new_queries_as_promised():
    rng = np.random.default_rng(3)
    s = 2 * rng.normal(size=(6000, 5))
    p = probabilities(1.7 * s)
    truth = np.asarray([rng.choice(5, p=q) for q in probabilities(s)])
    limit = threshold_for(p[np.arange(3000), truth[:3000]], 0.1)
    row = Conformal(threshold=limit).row(episode(truth[3000:], 5), 1.7 * s[3000:])
    assert row["coverage"] == pytest.approx(0.9, abs=0.03), "five standard deviations"


def test_auroc_and_fpr_are_scikit_learn_s_and_by_hand():
    from sklearn.metrics import roc_auc_score, roc_curve

    rng = np.random.default_rng(4)
    known, away = rng.normal(1, 1, 40).round(1), rng.normal(0, 1, 60).round(1)
    y, s = np.r_[np.ones(40), np.zeros(60)], np.r_[known, away]
    assert auroc(known, away) == pytest.approx(roc_auc_score(y, s), abs=1e-12)
    false, true, _ = roc_curve(y, s, drop_intermediate=False)
    assert accepted_at(known, away) == pytest.approx(false[true >= 0.95 - 1e-12][0])
    assert auroc(np.asarray([2.0, 3.0]), np.asarray([1.0, 2.0])) == 0.875, "one tie of four counts half"


def test_open_scores_by_hand():
    truth = np.asarray([0, 0, 1, 1, NONE, NONE])
    given = np.asarray([0, NONE, 1, 0, 1, NONE])
    assert open_f1(truth, given, 2) == pytest.approx(np.mean([2 * 1 / (2 + 2), 2 * 1 / (2 + 2)]))
    s = np.asarray([[5.0, 0], [0, 0.1], [0, 5], [5, 0], [0, 4], [0.1, 0]])
    row = StrangerScores(thresholds={"margin": 0.5}).row(episode(truth, 2), s)
    assert row["accepted/margin"] == 0.5 and row["open_accuracy/margin"] == pytest.approx(3 / 6)
    assert row["accuracy"] == 0.5 and "accepted/energy" not in row and "auroc/prototype" not in row


def test_a_threshold_keeps_its_promise_about_strangers_on_average():
    rng, accepted = np.random.default_rng(5), []
    for _ in range(400):
        limit = threshold_of(rng.normal(size=99), 0.1)
        accepted.append((rng.normal(size=200) > limit).mean())
    assert np.mean(accepted) == pytest.approx(0.1, abs=0.008), "five standard deviations of the mean"
    assert threshold_of(np.zeros(5), 0.1) == np.inf, "five strangers promise nothing at one in ten"


def test_shrinkage_and_distances_are_scikit_learn_s():
    from sklearn.covariance import LedoitWolf, ledoit_wolf_shrinkage

    rng = np.random.default_rng(6)
    for n, d in ((10, 40), (30, 8)):
        x, q, c = rng.normal(size=(n, d)) * rng.uniform(0.1, 3, d), rng.normal(size=(7, d)), rng.normal(size=(3, d))
        assert shrinkage(x) == pytest.approx(ledoit_wolf_shrinkage(x, assume_centered=True))
        model = LedoitWolf(assume_centered=True).fit(x)
        want = np.stack([model.mahalanobis(q - centre) for centre in c], 1)
        assert np.allclose(squared_mahalanobis(q, c, x), want, rtol=1e-8)


def test_every_score_of_refusal_tells_far_strangers_from_known_queries():
    """Three clusters far apart, strangers in a fourth, further than the scores of distance can confuse."""
    rng = np.random.default_rng(7)
    centres = 6 * np.eye(16)[:3]
    labels = np.repeat(np.arange(3), 5)
    support = centres[labels] + rng.normal(size=(15, 16))
    truth = np.repeat(np.arange(3), 20)
    query = np.concatenate([centres[truth] + rng.normal(size=(60, 16)), 6 * np.eye(16)[8] + rng.normal(size=(60, 16))])
    scores = -((query[:, None] - np.stack([support[labels == k].mean(0) for k in range(3)])[None]) ** 2).sum(-1)
    found = all_scores(Evidence(scores / 20, support, labels, query))
    assert set(found) == {
        "probability",
        "energy",
        "margin",
        "entropy",
        "score",
        "prototype",
        "mahalanobis",
        "k-nn",
        "vim",
    }
    for name, sure in found.items():
        assert auroc(sure[:60], sure[60:]) > 0.9, name


def test_torchmetrics_and_mapie_give_these_numbers():
    """torchmetrics 1.9.0 (multiclass_calibration_error, 15 bins, l1) and mapie 1.6.0 (SplitConformalClassifier, lac, 0.9) on the same scores."""
    rng = np.random.default_rng(7)
    s, truth = rng.normal(size=(400, 5)) * 2, rng.integers(0, 5, 400)
    p = probabilities(s)
    assert Calibration().row(episode(truth, 5), s)["ece"] == pytest.approx(0.45092905, abs=1e-6)
    threshold = threshold_for(p[:200][np.arange(200), truth[:200]], 0.1)
    assert threshold == pytest.approx(0.9961260218, abs=1e-9)
    row = Conformal(threshold=threshold).row(episode(truth[200:], 5), s[200:])
    assert row["coverage"] == pytest.approx(0.895) and row["set_size"] == pytest.approx(4.48)
