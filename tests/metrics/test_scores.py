"""Scores by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from handful.errors import Mismatch
from handful.metrics import mean_interval, paired
from handful.metrics.accuracy import accuracies


@pytest.mark.parametrize("ways", [2, 3, 7, 20])
def test_a_constant_answer_scores_zero_and_all_wrong_minus_one_over_n_less_one(ways):
    truth = np.repeat(np.arange(ways), 4)
    assert accuracies(truth, np.zeros_like(truth), ways)["normalised"] == pytest.approx(0)
    assert accuracies(truth, (truth + 1) % ways, ways)["normalised"] == pytest.approx(-1 / (ways - 1))
    assert accuracies(truth, truth, ways)["normalised"] == pytest.approx(1)


def test_balanced_accuracy_weighs_classes_not_queries():
    truth, answer = np.asarray([0, 0, 0, 1]), np.asarray([0, 0, 1, 1])
    out = accuracies(truth, answer, 2)
    assert out["accuracy"] == 0.75
    assert out["balanced"] == pytest.approx((2 / 3 + 1) / 2)


def test_the_interval_is_students():
    values = np.random.default_rng(0).normal(size=30)
    low, high = stats.t.interval(0.95, 29, values.mean(), stats.sem(values))
    estimate = mean_interval(values)
    assert (estimate.low, estimate.high) == (pytest.approx(low), pytest.approx(high))
    assert estimate.over == "tasks"


def test_the_sign_flip_test_is_exact_for_few_pairs():
    d = np.asarray([0.1, 0.3, 0.2, 0.4])
    result = paired(d, np.zeros(4))
    assert result.p == pytest.approx(2 / 16)
    assert paired(np.ones(5), np.ones(5)).tie


def test_a_clear_difference_is_seen_and_noise_is_a_tie():
    rng = np.random.default_rng(1)
    a = rng.normal(0.6, 0.1, 300)
    assert not paired(a, a - 0.03 + rng.normal(0, 0.02, 300)).tie
    assert paired(a, a + rng.normal(0, 0.02, 300)).p > 0.001
    with pytest.raises(Mismatch):
        paired(np.zeros(3), np.zeros(4))
