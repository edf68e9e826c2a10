"""The default engine: as many chunks at a time as there are cores, and the same bits on any number of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
import torch

from handful.errors import BadInput
from handful.methods import make
from handful.methods.contract import Learner
from handful.runs import evaluate, every_core
from handful.runs.every_core import EveryCore
from handful.tasks import AnyWay, Clustering, NWay
from made.patterns import blobs

SMALL = {"net": "conv4:filters=8"}
KINDS = {
    "closed form": ("r2d2", SMALL, lambda part: AnyWay(part, (2, 4), (1, 5), 4)),
    "fine-tuning": ("baseline", {**SMALL, "passes": 3}, lambda part: AnyWay(part, (2, 4), (1, 5), 4)),
    "gradient": ("fo-maml", {**SMALL, "test_steps": 2}, lambda part: NWay(part, 3, 2, 2)),
    "clustering": ("kmeans", SMALL, lambda part: Clustering(part, NWay(part, 3, 2, 2))),
}


@pytest.fixture(scope="module")
def collection():
    return blobs(n_classes=24, each=20)


@pytest.fixture
def eager(monkeypatch):
    """Threads for the shortest work and to its end, processes for none."""
    monkeypatch.setattr(every_core, "BRIEF", 0)
    monkeypatch.setattr(every_core, "USELESS", float("inf"))
    monkeypatch.setattr(every_core, "STARTING", float("inf"))


@pytest.mark.parametrize("kind", KINDS)
def test_no_bit_depends_on_the_number_of_cores(collection, kind, eager, monkeypatch):
    name, options, rule = KINDS[kind]
    learner, asked = make(name, **options).untrained(collection.card.shape), rule(collection.test)
    threads = set()
    original = every_core.clocked
    monkeypatch.setattr(every_core, "clocked", lambda *a: (threads.add(threading.get_ident()), original(*a))[1])
    runs = [evaluate(learner, asked, 300, engine=EveryCore(k), answers=True) for k in (1, 2, 3)]
    assert len(threads) > 1 and threading.get_ident() not in threads
    for other in runs[1:]:
        assert other.frame.equals(runs[0].frame) and other.answers.equals(runs[0].answers)
        assert set(other.facts["seconds"]) == set(runs[0].facts["seconds"])


def number(context, item):
    return item, os.getpid(), threading.get_ident()


class Threaded:
    made = 0

    def for_thread(self):
        Threaded.made += 1
        return self


def test_processes_are_started_once_and_only_where_they_pay(eager, monkeypatch):
    engine = EveryCore(2)
    try:
        assert {p for _, p, _ in engine.map(number, None, range(9))} == {os.getpid()}
        assert engine._processes is None
        monkeypatch.setattr(every_core, "STARTING", -1.0)
        monkeypatch.setattr(every_core, "STARTED", -1.0)
        found = [list(engine.map(number, None, range(9))) for _ in range(2)]
        for one in found:
            assert sorted(i for i, *_ in one) == list(range(9))
            assert [p for _, p, _ in one[:2]] == [os.getpid()] * 2
        elsewhere = [{p for _, p, _ in one} - {os.getpid()} for one in found]
        assert elsewhere[0] and elsewhere[0] | elsewhere[1] <= set(engine._processes._pool._processes)
    finally:
        engine.close()


def test_each_thread_has_a_context_of_its_own_and_gives_way_to_processes(eager, monkeypatch):
    monkeypatch.setattr(Threaded, "made", 0)
    engine = EveryCore(2)
    found = list(engine.map(number, Threaded(), range(9)))
    assert sorted(i for i, *_ in found) == list(range(9)) and 1 <= Threaded.made <= 2
    assert {t for _, _, t in found[2:]}.isdisjoint({threading.get_ident()})
    monkeypatch.setattr(every_core, "USELESS", -1.0)
    found = list(engine.map(number, Threaded(), range(40)))
    assert sorted(i for i, *_ in found) == list(range(40))
    assert found[-1][2] == threading.get_ident()  # threads that do not help leave the rest to the one that asked
    monkeypatch.setattr(every_core, "STARTING", -1.0)
    try:
        found = list(engine.map(number, Threaded(), range(40)))
        assert sorted(i for i, *_ in found) == list(range(40))
        assert len({p for _, p, _ in found}) > 1
    finally:
        engine.close()


def fail(context, item):
    if item > 3:
        raise BadInput("item 4 is bad; give another")
    return item


def test_an_error_on_a_thread_ends_the_run_in_its_own_sentence(eager):
    with pytest.raises(BadInput, match="^item 4 is bad; give another$"):
        list(EveryCore(2).map(fail, Threaded(), range(9)))


def test_copies_share_the_backbones_weights_and_a_stranger_has_none(collection):
    learner = make("relationnet", net="conv4:filters=8").untrained(collection.card.shape)
    twin = learner.twin()
    ours, theirs = dict(learner.modules.named_parameters()), dict(twin.modules.named_parameters())
    assert twin.modules is not learner.modules and ours.keys() == theirs.keys()
    for name, parameter in ours.items():
        assert torch.equal(parameter, theirs[name])
        assert (parameter is theirs[name]) == name.startswith("backbone.")
    assert Learner().twin() is None


SCRIPT = """
import time
import numpy as np
import handful as hf
from handful.methods.contract import Learner, Predictor
from handful.nets.compute import Compute
from handful.runs import every_core

every_core.STARTING = every_core.STARTED = -1.0
print("the script runs")

class Slow(Predictor):
    def __init__(self, ways):
        self.ways = ways
    def predict(self, query):
        time.sleep(0.002)
        return np.zeros((len(query.images), self.ways), np.float32)

class Own(Learner):
    method, compute = hf.methods.NearestCentroid(), Compute()
    def fit(self, support):
        return Slow(support.shape[0])

print(len(hf.evaluate(Own(), hf.world(size=16), n=320).frame))
"""


def test_a_script_without_a_guard_and_with_a_learner_of_its_own_just_runs(tmp_path):
    (tmp_path / "mine.py").write_text(SCRIPT)
    environment = {k: v for k, v in os.environ.items() if k != "HANDFUL_CORES"}
    done = subprocess.run([sys.executable, str(tmp_path / "mine.py")], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["the script runs", "320"]
