"""Hand-computed scores of pair tasks."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy import stats

from handful.metrics.pairs import PairAccuracy, harmonic
from handful.tasks.episode import Episode


def episode(truth, seen, shape=(2, 2)):
    truth = np.asarray(truth)
    mask = np.zeros(shape[0] * shape[1], dtype=bool)
    mask[list(seen)] = True
    none = np.zeros(0, dtype=np.int64)
    return Episode(
        0, none, none, np.arange(len(truth)), truth, shape, (("a",) * shape[0], ("b",) * shape[1]), seen=mask
    )


def scores(answers, n):
    return np.eye(n, dtype=np.float32)[np.asarray(answers)]


def test_one_task_by_hand():
    # Pairs of a 2 x 3 grid, row-major: seen 0, 4, 5; unseen queries of pairs 1 and 3.
    truth, answers = [0, 0, 4, 5, 1, 1, 1, 3], [0, 4, 4, 2, 1, 0, 2, 4]
    row = PairAccuracy().row(episode(truth, (0, 4, 5), (2, 3)), scores(answers, 6))
    assert row["seen"] == pytest.approx(2 / 4)
    assert row["unseen"] == pytest.approx(1 / 4)
    assert row["u_to_s"] == pytest.approx(2 / 4)  # 1 -> 0 and 3 -> 4
    assert row["u_to_u"] == pytest.approx(1 / 4)  # 1 -> 2, which nothing has
    assert row["unseen"] + row["u_to_s"] + row["u_to_u"] == pytest.approx(1)
    assert row["confusion"] == pytest.approx(2)
    # First primitives (row): seen 0->0, 0->1, 1->1, 1->0; unseen 0->0, 0->0, 0->0, 1->1.
    assert row["p1_seen"] == pytest.approx(2 / 4) and row["p1_unseen"] == pytest.approx(1)
    # Second (column): seen 0->0, 0->1, 1->1, 2->2; unseen 1->1, 1->0, 1->2, 0->1.
    assert row["p2_seen"] == pytest.approx(3 / 4) and row["p2_unseen"] == pytest.approx(1 / 4)
    assert row["hm"] == pytest.approx(2 * 0.5 * 0.25 / 0.75)
    assert row["p1_hm"] == pytest.approx(2 * 0.5 / 1.5)


def test_harmonic_mean_is_of_the_means():
    """(UA, SA) = (0, 1) and (1, 0) give 0.5, not 0."""
    frame = pl.DataFrame({"repeat": [0, 0], "task": [0, 1], "unseen": [0.0, 1.0], "seen": [1.0, 0.0], "hm": [0.0, 0.0]})
    assert PairAccuracy().reduce(frame, "hm").value == pytest.approx(0.5)


def test_harmonic_of_nothing_is_nothing():
    assert harmonic(0, 0) == 0 and harmonic(0, 1) == 0 and harmonic(1, 1) == 1


def test_interval_over_random_experiments():
    rng = np.random.default_rng(0)
    unseen, seen, repeat = rng.random(300), rng.random(300), np.repeat([0, 1, 2], 100)
    frame = pl.DataFrame({"repeat": repeat, "unseen": unseen, "seen": seen})
    found = PairAccuracy().reduce(frame, "hm")
    each = [harmonic(unseen[repeat == r].mean(), seen[repeat == r].mean()) for r in range(3)]
    half = stats.t.ppf(0.975, 2) * np.std(each, ddof=1) / np.sqrt(3)
    assert found.over == "repeats" and found.n == 3
    assert found.value == pytest.approx(harmonic(unseen.mean(), seen.mean()))
    assert found.half == pytest.approx(half)
    means = [unseen[repeat == r].mean() for r in range(3)]
    assert PairAccuracy().reduce(frame, "unseen").half == pytest.approx(
        stats.t.ppf(0.975, 2) * np.std(means, ddof=1) / np.sqrt(3)
    )


def test_jackknife_interval_covers_the_truth():
    """Of 300 runs of 100 tasks, about 95% of the intervals hold the harmonic mean of the true means."""
    rng = np.random.default_rng(1)
    truth, hits = harmonic(0.2, 0.7), 0
    for _ in range(300):
        frame = pl.DataFrame({"unseen": rng.binomial(5, 0.2, 100) / 5, "seen": rng.binomial(30, 0.7, 100) / 30})
        found = PairAccuracy().reduce(frame, "hm")
        hits += found.low <= truth <= found.high
    assert 0.91 <= hits / 300 <= 0.985


def test_the_ratio_is_of_the_mean_rates():
    frame = pl.DataFrame({"u_to_s": [1.0, 0.4], "u_to_u": [0.0, 0.5]})
    assert PairAccuracy().reduce(frame, "confusion").value == pytest.approx(0.7 / 0.25)
    frame = pl.DataFrame({"u_to_s": [1.0, 0.4], "u_to_u": [0.0, 0.0]})
    assert PairAccuracy().reduce(frame, "confusion").value == float("inf")


@pytest.mark.filterwarnings("error")
def test_a_repeat_with_an_infinite_ratio_has_no_interval():
    frame = pl.DataFrame({"repeat": [0, 0, 1, 1], "u_to_s": [1.0, 1.0, 0.4, 0.5], "u_to_u": [0.0, 0.0, 0.5, 0.5]})
    found = PairAccuracy().reduce(frame, "confusion")
    assert found.value == pytest.approx(2.9) and np.isnan(found.half)
