"""Confident learning: a case worked by hand, and the answers of its authors' library."""

from __future__ import annotations

import numpy as np
import pytest

from handful.repair.confident import confident, doubted, folds, out_of_fold, thresholds


def test_a_case_worked_by_hand():
    p = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8], [0.4, 0.6], [0.1, 0.9], [0.45, 0.55]])
    given = np.array([0, 0, 0, 1, 1, 1])
    # Thresholds: (0.9 + 0.7 + 0.2) / 3 = 0.6 and (0.6 + 0.9 + 0.55) / 3 = 0.6833.
    assert thresholds(p, given) == pytest.approx([0.6, 0.68333], abs=1e-4)
    assert confident(p, given).tolist() == [0, 0, 1, -1, 1, -1]
    found = doubted(p, given)
    assert found.at.tolist() == [2] and found.suggested.tolist() == [1] and found.margin == pytest.approx([0.6])


@pytest.mark.parametrize("seed", range(3))
def test_the_library_of_its_authors_says_the_same(seed):
    filters = pytest.importorskip("cleanlab.filter", reason="pip install cleanlab to compare with it")
    rng = np.random.default_rng(seed)
    given = rng.integers(0, 6, 400)
    p = rng.dirichlet(np.full(6, 0.4), 400) * 0.5
    p[np.arange(400), given] += 0.5 * (rng.random(400) < 0.85)
    p /= p.sum(1, keepdims=True)
    theirs = filters.find_label_issues(given, p, filter_by="confident_learning", n_jobs=1)
    # The library leaves out images whose given label is the likeliest all the same.
    ours = np.zeros(400, dtype=bool)
    found = doubted(p, given)
    ours[found.at] = True
    ours &= p.argmax(1) != given
    assert ours.sum() > 10 and (ours == theirs).all()


def test_folds_spread_every_class_evenly():
    given = np.repeat(np.arange(7), 13)
    fold = folds(given, 0)
    for c in range(7):
        counts = np.bincount(fold[given == c], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_an_image_has_no_part_in_its_own_prediction():
    rng = np.random.default_rng(0)
    x, given = rng.normal(size=(120, 8)), np.repeat(np.arange(4), 30)
    before = out_of_fold(x, given, 0)
    assert before.argmax(1).tolist() != given.tolist() and (before.argmax(1) == given).mean() < 0.45
    again = out_of_fold(x, given, 0)
    assert (before == again).all()
