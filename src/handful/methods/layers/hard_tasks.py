"""Hard tasks: made of the classes that a step's tasks got wrong (Sun, Liu, Chua, Schiele, CVPR 2019)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from handful.errors import BadInput
from handful.tasks import random
from handful.tasks.episode import Query, Task
from handful.tasks.nway import NWay, draw_blocks
from handful.tasks.rule import Rule


class HardTasks:
    """Draws, for a numbered step, tasks of the classes that were answered worst in it."""

    def __init__(self, rule: Rule, number: int, seed: int):
        if type(rule) is not NWay:
            raise BadInput(f"hard tasks are n-way tasks; train on --rule n-way instead of {rule.name}, or set hard=0")
        self.rule, self.number = rule, number
        self.seed = random.subseed(seed, "hard tasks")
        self.classes = rule.eligible()
        self.place = {rule.part.class_names[c]: at for at, c in enumerate(self.classes.tolist())}

    def tasks(self, learner: Any, tasks: list[Task], step: int) -> list[Task]:
        failed = [self.place[task.episode.names[0][worst(learner, task)]] for task in tasks]
        numbers = np.arange(step * self.number, (step + 1) * self.number)
        among = self.among(sorted(set(failed)), numbers)
        return [self.rule.read(e) for e in draw_blocks(self.rule, self.seed, numbers, self.classes, among)]

    def among(self, failed: list[int], numbers: np.ndarray) -> np.ndarray:
        """Places of each task's classes, in a random order: failed ones before any others."""
        lots = random.uniform(random.words(self.seed, "classes", numbers, len(self.classes)))
        lots[:, failed] -= 1  # below every class that did not fail
        chosen = np.argsort(lots, axis=1, kind="stable")[:, : self.rule.ways]
        order = np.argsort(random.words(self.seed, "places", numbers, self.rule.ways), axis=1)
        return np.take_along_axis(chosen, order, 1)


def worst(learner: Any, task: Task) -> int:
    """The class of a task whose queries are answered worst; the first of several."""
    learner.modules.eval()
    with torch.no_grad():
        scores = learner.fit(task.support).predict(Query(task.query.images))
    learner.modules.train()
    right = scores.argmax(1) == task.labels
    n = np.bincount(task.labels, minlength=task.support.n_classes)
    return int(np.argmin(np.bincount(task.labels, right, len(n)) / np.maximum(n, 1)))
