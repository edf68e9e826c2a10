"""What an interval covers: new tasks from the same classes, or new classes and images (a crossed bootstrap)."""

from __future__ import annotations

import numpy as np

from handful.errors import Mismatch
from handful.metrics.base import LEVEL, Estimate, mean_interval

SAME = "new tasks from the same classes"
NEW = "new classes"


def task_means(values: np.ndarray, task: np.ndarray) -> np.ndarray:
    """Mean of each task's answers, in the order of the task numbers."""
    codes = np.unique(task, return_inverse=True)[1].reshape(-1)
    return np.bincount(codes, weights=values) / np.bincount(codes)


def over_tasks(values: np.ndarray, task: np.ndarray) -> Estimate:
    """Mean over tasks with a t interval: what would change if other tasks were drawn from the same classes."""
    return mean_interval(task_means(np.asarray(values, dtype=np.float64), task), SAME)


def crossed_bootstrap(
    values: np.ndarray,
    task: np.ndarray,
    classes: np.ndarray,
    image: np.ndarray | None = None,
    *,
    draws: int = 2000,
    seed: int = 0,
    level: float = LEVEL,
) -> Estimate:
    """Mean over tasks with an interval for new classes and new images of them.

    Classes are drawn again with replacement, and so are the images of each class (Owen and Eckles, "Bootstrapping data
    arrays of arbitrary order", AOAS 2012: every level of every crossed factor has a random weight). A task lives and
    dies with all of its classes, so its weight is the product of theirs; of that product the first-order part is taken,

        m* = m + Σ_c (w_c - 1) G_c + Σ_i (v_i - 1) H_i,
        G_c = Σ_{tasks t with c} (m_t - m) / T,      H_i = Σ_{answers a of image i} (x_a - recall of its class in its task) / (n_t T),

    since the whole product of many ways' weights mostly measures its own noise. Counts w are multinomial over the C
    classes, v over the images of each class; deviations of classes are scaled by sqrt(C / (C - 1)).

    Parameters
    ----------
    values, task, classes, image
        One entry an answer: its value (right or wrong, or a paired difference), its task's number, the number of its true
        class and of its image. Without ``image`` only classes are drawn again.
    """
    x, task, classes = np.asarray(values, dtype=np.float64), np.asarray(task), np.asarray(classes)
    if not len(x) == len(task) == len(classes) or (image is not None and len(image) != len(x)):
        raise Mismatch(
            f"{len(x)} values for {len(task)} tasks' and {len(classes)} classes' entries; give one each an answer"
        )
    if not len(x):
        return Estimate(float("nan"), float("nan"), float("nan"), NEW, 0)
    _, t = np.unique(task, return_inverse=True)
    _, c = np.unique(classes, return_inverse=True)
    t, c = t.reshape(-1), c.reshape(-1)
    n_tasks, n_classes = int(t.max()) + 1, int(c.max()) + 1
    per_task = np.bincount(t)
    means = np.bincount(t, weights=x) / per_task
    mean = float(means.mean())
    if n_classes < 2:
        return Estimate(mean, float("nan"), float("nan"), NEW, n_classes)
    cell, place = np.unique(t * n_classes + c, return_inverse=True)
    place = place.reshape(-1)
    pull = np.bincount(cell % n_classes, weights=(means[cell // n_classes] - mean) / n_tasks, minlength=n_classes)
    rng = np.random.default_rng([seed, 0xC805])
    counts = rng.multinomial(n_classes, np.full(n_classes, 1 / n_classes), size=draws)
    moved = (counts - 1) @ pull * np.sqrt(n_classes / (n_classes - 1))
    if image is not None:
        recall = np.bincount(place, weights=x) / np.bincount(place)
        _, first, i = np.unique(image, return_index=True, return_inverse=True)
        push = np.bincount(i.reshape(-1), weights=(x - recall[place]) / (per_task[t] * n_tasks))
        owner = c[first]
        for k in range(n_classes):
            own = push[owner == k]
            if len(own) > 1:
                moved += (rng.multinomial(len(own), np.full(len(own), 1 / len(own)), size=draws) - 1) @ own
    low, high = np.percentile(mean + moved, [50 * (1 - level), 50 * (1 + level)])
    return Estimate(mean, float(low), float(high), NEW, n_classes)


def crossed_ratio(
    above: np.ndarray,
    below: np.ndarray,
    task: np.ndarray,
    classes: np.ndarray,
    image: np.ndarray | None = None,
    **options: int,
) -> Estimate:
    """The ratio of two paired means with an interval for new classes: the bootstrap of its linear part, (a - r b) / mean(b)."""
    a, b = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    base = float(task_means(b, task).mean()) if len(b) else 0.0
    if base <= 0:
        return Estimate(float("nan"), float("nan"), float("nan"), NEW, 0)
    ratio = float(task_means(a, task).mean()) / base
    found = crossed_bootstrap((a - ratio * b) / base, task, classes, image, **options)
    return Estimate(ratio, ratio + found.low, ratio + found.high, NEW, found.n)
