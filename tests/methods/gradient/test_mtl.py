"""MTL's hard tasks."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from handful.errors import BadInput
from handful.methods.contract import make
from handful.methods.gradient.mtl import MTL
from handful.methods.layers.hard_tasks import HardTasks, worst
from handful.methods.schedule import Schedule
from handful.methods.training import Drawn
from handful.tasks import NWay
from handful.tasks import make as make_rule
from made.patterns import blobs


class Mistaken:
    """Answers every query rightly but those of the named classes."""

    def __init__(self, wrong):
        self.wrong, self.modules = set(wrong), torch.nn.Module()

    def ask(self, tasks):
        """It is told the answers, which no learner is: to fail where it is meant to."""
        self.told = iter(tasks)
        return tasks

    def fit(self, support):
        task = next(self.told)
        scores = np.eye(support.n_classes, dtype=np.float32)[task.labels]
        missed = np.isin([task.episode.names[0][c] for c in task.labels], list(self.wrong))
        scores[missed] = np.roll(scores[missed], 1, axis=1)
        return SimpleNamespace(predict=lambda query: scores)


def drawn(each=4, ways=3):
    rule = NWay(blobs(n_classes=24, each=20).train, ways, 2, 3)
    return rule, Drawn(rule, Schedule(tasks=each, seed=0)).tasks(0)


def test_hard_tasks_are_of_the_classes_that_failed():
    rule, tasks = drawn(each=6)
    wrong = {name for task in tasks for name in task.episode.names[0][1:]}
    failed = {next(n for n in task.episode.names[0] if n in wrong) for task in tasks}
    learner = Mistaken(wrong)
    assert 3 <= len(failed) < len(wrong)
    hard = HardTasks(rule, 6, seed=1)
    made = hard.tasks(learner, learner.ask(tasks), step=5)
    assert len(made) == 6 and {name for task in made for name in task.episode.names[0]} <= failed
    assert all(len(set(task.episode.names[0])) == 3 for task in made)
    again = hard.tasks(learner, learner.ask(tasks), step=5)
    assert [t.episode.support.tolist() for t in again] == [t.episode.support.tolist() for t in made]
    later = hard.tasks(learner, learner.ask(tasks), step=6)
    assert [t.episode.support.tolist() for t in later] != [t.episode.support.tolist() for t in made]


def test_too_few_failures_are_filled_up_with_other_classes():
    rule, tasks = drawn()
    one = tasks[0].episode.names[0][1]
    learner = Mistaken([one])
    made = HardTasks(rule, 8, seed=0).tasks(learner, learner.ask(tasks[:1]), step=0)
    assert all(one in task.episode.names[0] for task in made)
    assert len({name for task in made for name in task.episode.names[0]}) > 4
    # A label tells nothing of which class failed.
    assert len({task.episode.names[0].index(one) for task in made}) == 3


def test_the_worst_class_is_the_one_with_the_fewest_right_answers():
    _, tasks = drawn(each=1)
    for name in tasks[0].episode.names[0]:
        learner = Mistaken([name])
        (task,) = learner.ask(tasks)
        assert task.episode.names[0][worst(learner, task)] == name


def test_mtl_trains_on_hard_tasks_beside_its_own(tmp_path, monkeypatch):
    """As many tasks as it says reach its loss; a training that was killed and goes on ends in the same bits."""
    rule = NWay(blobs(n_classes=24, each=20).train, 5, 2, 3)
    options = {"net": "conv4:filters=8", "pretrain": Schedule(steps=5, batch=16)}
    method = make("mtl", hard=2, schedule=Schedule(steps=6, tasks=3, checkpoint_every=2), **options)
    straight = method.meta_fit(rule).state()
    head, seen = MTL.head, []

    def dies_in_the_fifth_step(self, m, b):
        seen.append(len(b.y))
        if len(seen) > 4 * 4:
            raise RuntimeError("killed")
        return head(self, m, b)

    with monkeypatch.context() as patched:
        patched.setattr(MTL, "head", dies_in_the_fifth_step)
        with pytest.raises(RuntimeError, match="killed"):
            method.meta_fit(rule, keep=tmp_path)
    assert seen[:4] == [1, 1, 1, 5]  # three are asked one by one which class fails, then all five are learned from
    resumed = method.meta_fit(rule, keep=tmp_path).state()
    assert all(torch.equal(straight[k], resumed[k]) for k in straight)
    plain = make("mtl", schedule=Schedule(steps=6, tasks=3), **options).meta_fit(rule).state()
    assert any(not torch.equal(straight[k], plain[k]) for k in straight)


def test_hard_tasks_need_the_plain_rule():
    part = blobs(n_classes=24, each=20).train
    with pytest.raises(BadInput, match="n-way"):
        HardTasks(make_rule("any-way", part), 1, 0)
    with pytest.raises(BadInput, match="hard tasks"):
        make("mtl", hard=-1)
