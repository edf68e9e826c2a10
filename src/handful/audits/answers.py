"""Every answer of a learner to the tasks of a rule: what accuracies, intervals and paired comparisons are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from handful.methods.answering import Answered
from handful.methods.embedded import Embedded
from handful.metrics.base import Estimate
from handful.metrics.clustering import answered, match
from handful.metrics.crossed import crossed_bootstrap, crossed_ratio, over_tasks, task_means
from handful.runs.answering import answers_to
from handful.tasks.rule import Rule


@dataclass(frozen=True, eq=False)
class TaskAnswers:
    """One entry an answer: task number, image, class number, true and given label, and the task's number of classes."""

    task: np.ndarray
    image: np.ndarray
    classes: np.ndarray
    truth: np.ndarray
    given: np.ndarray
    ways: np.ndarray

    @property
    def right(self) -> np.ndarray:
        return (self.given == self.truth).astype(np.float64)

    @property
    def chance(self) -> float:
        return float((1 / self.ways).mean())

    @property
    def tasks(self) -> np.ndarray:
        """Accuracy of each task."""
        return task_means(self.right, self.task)

    def both(self, values: np.ndarray | None = None, seed: int = 0) -> tuple[Estimate, Estimate]:
        """The mean of the answers' values (right or wrong) for new tasks, and for new classes."""
        x = self.right if values is None else values
        return over_tasks(x, self.task), crossed_bootstrap(x, self.task, self.classes, self.image, seed=seed)

    def share(self, of: TaskAnswers, seed: int = 0) -> tuple[Estimate, Estimate]:
        """How much of another's lead over guessing this has, (a - 1/N) / (b - 1/N), for new tasks and new classes."""
        a, b = self.right - 1 / self.ways, of.right - 1 / of.ways
        over_classes = crossed_ratio(a, b, self.task, self.classes, self.image, seed=seed)
        return ratio_over_tasks(task_means(a, self.task), task_means(b, of.task), seed), over_classes


def ratio_over_tasks(a: np.ndarray, b: np.ndarray, seed: int = 0) -> Estimate:
    """The ratio of two paired means with the interval of a bootstrap over tasks; no number where the lower one is not above 0."""
    from handful.metrics.crossed import SAME
    from handful.metrics.cscc import cscc

    if b.mean() <= 0:
        return Estimate(float("nan"), float("nan"), float("nan"), SAME, len(a))
    found = cscc(a, b, seed=seed, draws=2000)
    return Estimate(found.value, found.low, found.high, SAME, found.n)


def answer(method: Embedded, rule: Rule, n: int, seed: int) -> TaskAnswers:
    """Answers of an untrained method on a rule's (embedded) images; a clustering's are matched with classes on the support."""
    learner = method.untrained(rule.image_shape)
    return collect(rule, answers_to(learner, rule, n, seed))


def labels_of(found: Answered) -> np.ndarray:
    """The labels given to the queries; a clustering's are matched with classes on the support."""
    episode, scores, support = found
    given = scores.argmax(1)
    if support is None or "labels" in episode.shows:
        return given
    return match(episode.support_labels, answered(support), episode.n_classes)[given]


def collect(rule: Rule, scored: Iterable[Answered]) -> TaskAnswers:
    """Answers from scores, with the number of every answer's true class in the rule's part."""
    columns: list[list[np.ndarray]] = [[], [], [], [], []]
    for found in scored:
        episode, given = found.episode, labels_of(found)
        n = len(episode.query)
        ways = np.full(n, episode.n_classes)
        task = np.full(n, episode.number)
        for column, values in zip(columns, (task, episode.query, episode.query_labels, given, ways), strict=True):
            column.append(values)
    task, image, truth, given, ways = (np.concatenate(c) for c in columns)
    return TaskAnswers(task, image, class_numbers(rule, image), truth, given, ways)


def class_numbers(rule: Rule, images: np.ndarray) -> np.ndarray:
    """The part's class number of each image."""
    part = rule.part
    order = np.argsort(part.rows)
    return part.classes[order[np.searchsorted(part.rows[order], images)]]
