"""The paired t-test's power, by simulation and by its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from handful.errors import BadInput
from handful.metrics.difficulty import difficulty
from handful.metrics.power import smallest_difference, tasks_needed


@pytest.mark.parametrize("tasks", [12, 60, 400])
def test_the_difference_is_found_four_times_in_five(tasks):
    rng = np.random.default_rng(tasks)
    d = smallest_difference(0.07, tasks)
    x = rng.normal(d, 0.07, (4000, tasks))
    t = x.mean(1) / (x.std(1, ddof=1) / np.sqrt(tasks))
    found = (2 * stats.t.sf(np.abs(t), tasks - 1) < 0.05).mean()
    assert found == pytest.approx(0.8, abs=0.025)


def test_as_many_tasks_as_needed_and_no_more():
    n = tasks_needed(0.08, 0.01)
    assert smallest_difference(0.08, n) <= 0.01 < smallest_difference(0.08, n - 1)
    assert n == pytest.approx((1.96 + 0.8416) ** 2 * 64, rel=0.01)
    assert smallest_difference(0.0, 10) == 0.0 and tasks_needed(0.0, 0.01) == 2
    for wrong in (
        lambda: smallest_difference(0.1, 1),
        lambda: tasks_needed(0.1, 0.0),
        lambda: smallest_difference(-1, 9),
    ):
        with pytest.raises(BadInput):
            wrong()


def test_difficulties_make_one():
    found = difficulty({"a": 0.2, "b": 0.5}, {"a": 0.7, "b": 0.9})
    assert found.rows() == [
        ("a", 0.2, pytest.approx(0.5), pytest.approx(0.3)),
        ("b", 0.5, pytest.approx(0.4), pytest.approx(0.1)),
    ]
    with pytest.raises(BadInput, match="'b'"):
        difficulty({"a": 0.1}, {"a": 0.2, "b": 0.3})
