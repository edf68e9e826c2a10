"""The crossed bootstrap against what it stands for: numeric derivatives, and the spread over really new classes."""

from __future__ import annotations

import numpy as np
import pytest

from handful.errors import Mismatch
from handful.metrics.base import mean_interval
from handful.metrics.crossed import NEW, SAME, crossed_bootstrap, crossed_ratio, over_tasks


def study(rng, n_classes=30, tasks=150, ways=5, queries=6, spread=0.15, images=12, image_spread=0.0):
    """Answers of a learner whose accuracy depends on the class and on the image asked about."""
    skill = rng.normal(0.7, spread, n_classes)
    own = rng.normal(0, image_spread, (n_classes, images))
    task, label, image = [], [], []
    for t in range(tasks):
        for c in rng.choice(n_classes, ways, replace=False):
            for i in rng.choice(images, queries, replace=False):
                task.append(t)
                label.append(c)
                image.append(c * images + i)
    label, image = np.asarray(label), np.asarray(image)
    chance = np.clip(skill[label] + own[label, image % images], 0, 1)
    return (rng.random(len(label)) < chance).astype(float), np.asarray(task), label, image


def test_the_interval_is_that_of_the_influence_of_each_class():
    x, task, label, _ = study(np.random.default_rng(0))
    n = label.max() + 1
    tasks = np.unique(task)
    mean = np.asarray([x[task == t].mean() for t in tasks])
    has = np.asarray([[c in label[task == t] for c in range(n)] for t in tasks])

    def weighted(weights):  # a task lives with all of its classes: the product of their weights
        product = np.prod(np.where(has, weights, 1.0), axis=1)
        return (product * mean).sum() / product.sum()

    step = 1e-5
    influence = np.asarray([(weighted(1 + step * np.eye(n)[c]) - weighted(np.ones(n))) / step for c in range(n)])
    sd = np.sqrt(np.square(influence).sum() * n / (n - 1))
    found = crossed_bootstrap(x, task, label, draws=20_000)
    assert found.value == pytest.approx(mean.mean()) and found.over == NEW and found.n == n
    assert found.half / 1.96 == pytest.approx(sd, rel=0.05)


@pytest.mark.parametrize("image_spread", [0.0, 0.3])
def test_it_covers_new_classes_where_the_interval_over_tasks_does_not(image_spread):
    rng = np.random.default_rng(1)
    wide, narrow, truth = [], [], []
    for _ in range(60):
        x, task, label, image = study(rng, tasks=80, image_spread=image_spread)
        truth.append(over_tasks(x, task).value)
        narrow.append(over_tasks(x, task).half)
        wide.append(crossed_bootstrap(x, task, label, image, draws=400).half)
    spread = 1.96 * np.std(truth)
    assert 0.8 < np.mean(wide) / spread < 1.35
    assert np.mean(narrow) < 0.6 * spread


def test_over_tasks_is_the_usual_interval_and_a_ratio_is_linearised():
    x, task, label, image = study(np.random.default_rng(2))
    usual = mean_interval(np.asarray([x[task == t].mean() for t in np.unique(task)]))
    found = over_tasks(x, task)
    assert (found.value, found.low, found.high) == pytest.approx((usual.value, usual.low, usual.high))
    assert found.over == SAME
    half = crossed_ratio(x * 0.5, x, task, label, image)
    assert half.value == pytest.approx(0.5) and half.low == pytest.approx(0.5) and half.high == pytest.approx(0.5)
    noise = np.random.default_rng(3).random(len(x)) < 0.5
    ratio = crossed_ratio(x * noise, x, task, label, image)
    assert ratio.low < ratio.value < ratio.high and ratio.value == pytest.approx(0.5, abs=0.03)


def test_wrong_input_is_refused_and_one_class_has_no_interval():
    with pytest.raises(Mismatch):
        crossed_bootstrap(np.ones(3), np.zeros(2), np.zeros(3))
    alone = crossed_bootstrap(np.ones(4), np.arange(4), np.zeros(4))
    assert alone.value == 1 and np.isnan(alone.low)
    assert np.isnan(crossed_bootstrap(np.zeros(0), np.zeros(0), np.zeros(0)).value)
