"""Image quality: planted bad samples are found, the ceiling is a supervised model's, wrong input is named."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from handful.audits.zero_shot.visual import ceiling, non_overlapping, population, probe, select_samples
from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput, Infeasible


def planted(
    n_classes: int = 6, per_class: int = 24, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, Taxonomy, np.ndarray]:
    """Gaussian classes under one root; the last three images of each class show another class."""
    rng = np.random.default_rng(seed)
    names = [f"c{i}" for i in range(n_classes)]
    centres = rng.normal(size=(n_classes, 16)) * 3
    y = np.repeat(np.arange(n_classes), per_class)
    shown = y.copy()
    bad = np.arange(len(y)) % per_class >= per_class - 3
    shown[bad] = (y[bad] + 1) % n_classes
    x = centres[shown] + rng.normal(size=(len(y), 16)) * 0.5
    tax = Taxonomy.of([(name, "root") for name in names])
    return x.astype(np.float32), np.array(names)[y], tax, bad


def test_mislabelled_images_are_found_and_the_others_kept() -> None:
    x, labels, tax, bad = planted()
    found = select_samples(x, labels, tax, classes_per_round=6, train_per_class=12, seed=1)
    assert (found.tested > 0).all() and (found.right <= found.tested).all()
    assert found.good[~bad].mean() > 0.98 and found.good[bad].mean() < 0.15
    again = select_samples(x, labels, tax, classes_per_round=6, train_per_class=12, seed=1)
    assert np.array_equal(found.right, again.right)


def test_a_probe_round_never_mixes_parents_and_children() -> None:
    tax = Taxonomy.of([("b", "a"), ("c", "b"), ("d", "a"), ("e", "d"), ("f", "a")])
    for seed in range(30):
        chosen = non_overlapping(tax, list("abcdef"), 6, np.random.default_rng(seed))
        assert chosen == ["a"] or not (set(chosen) & {"a"})
        assert not {"b", "c"} <= set(chosen) and not {"d", "e"} <= set(chosen)


def test_the_probe_agrees_with_logistic_regression() -> None:
    rng = np.random.default_rng(3)
    y = np.repeat(np.arange(4), 40)
    x = rng.normal(size=(4, 10))[y] * 0.7 + rng.normal(size=(160, 10))
    test = rng.normal(size=(4, 10))[y] * 0.7 + rng.normal(size=(160, 10))
    z = (x - x.mean(0)) / x.std(0, ddof=1) / np.sqrt(10)
    # Same objective: sklearn's C multiplies the summed loss, with half the squared norm.
    reference = LogisticRegression(C=4 / (2 * 1e-3 * 160), max_iter=5000, tol=1e-8).fit(z, y)
    expected = reference.predict((test - x.mean(0)) / x.std(0, ddof=1) / np.sqrt(10))
    assert np.mean(probe(x, y, test, steps=300) == expected) > 0.97


def test_the_ceiling_is_high_on_clean_images_and_falls_with_planted_ones() -> None:
    x, labels, _, bad = planted()
    names = np.unique(labels).tolist()
    assert ceiling(x[~bad], labels[~bad], names).value > 0.99
    top = ceiling(x, labels, names)
    assert top.value == pytest.approx(21 / 24, abs=0.05)
    assert top.relative(top.value / 2) == pytest.approx(0.5)


def test_population_counts_the_images_of_each_class() -> None:
    assert population(["b"] * 4 + ["c"] * 2 + ["d"] * 6, ["b", "c", "d"]).tolist() == [4, 2, 6]


def test_wrong_input_is_named() -> None:
    x, labels, tax, _ = planted()
    with pytest.raises(Infeasible, match=r"no image left beyond the 24 trained on \(c0"):
        select_samples(x, labels, tax, train_per_class=24)
    broken = x.copy()
    broken[30, 2] = np.nan
    with pytest.raises(BadInput, match=r"features of image 30 \(c1\) are not finite"):
        select_samples(broken, labels, tax, train_per_class=12)
    with pytest.raises(BadInput, match=r"1 classes have no image \(ghost\)"):
        ceiling(x, labels, ["c0", "ghost"])
    with pytest.raises(BadInput, match="one row of features an image"):
        ceiling(x[:5], labels, ["c0", "c1"])
    with pytest.raises(Infeasible, match="fewer than the 30 folds"):
        ceiling(x, labels, ["c0", "c1"], folds=30)
