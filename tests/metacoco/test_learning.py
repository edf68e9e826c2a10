"""Each method learns: after a short training it beats itself untrained, on the same tasks, by more than the interval."""

from __future__ import annotations

import pytest

from handful.methods.contract import load, make
from handful.runs.evaluate import evaluate
from handful.tasks.nway import NWay
from patterns import blobs

PLAIN = {"steps": 100, "batch": 32, "augment": (), "milestones": ()}
PRE = {"steps": 70, "batch": 32, "augment": ()}
OPTIONS = {
    "rfs-simple": {"schedule": PLAIN},
    "skd-gen0": {"schedule": {**PLAIN, "steps": 60, "batch": 24}},
    "neg-cosine": {"schedule": PLAIN, "passes": 20},
    "frn": {"schedule": {"steps": 60, "tasks": 2, "augment": ()}},
    "linear": {"schedule": PLAIN, "steps": 40},
    "cosine": {"schedule": PLAIN, "steps": 40},
    "k-nn": {"schedule": PLAIN},
    "lp-ft-fb": {"schedule": PLAIN, "probe_passes": 20, "tune_passes": 2, "task_batch": 0},
    "contrastive": {"schedule": {"steps": 20}, "pretrain": {**PRE, "steps": 50, "batch": 24}},
    "boil": {"schedule": {"steps": 40, "tasks": 4}, "inner_steps": 2, "test_steps": 2, "inner_rate": 0.3},
    "versa": {"schedule": {"steps": 120, "tasks": 2}},
    "r2d2": {"schedule": {"steps": 60, "tasks": 2}},
    "mtl": {"schedule": {"steps": 20, "tasks": 2}, "pretrain": PRE},
    "sib": {"schedule": {"steps": 20, "tasks": 2}, "pretrain": PRE},
}


@pytest.fixture(scope="module")
def noisy():
    return blobs(n_classes=24, each=40, noise=110.0)


@pytest.mark.parametrize("name", OPTIONS)
def test_trained_beats_untrained(name, noisy, tmp_path):
    method = make(name, net="conv4:filters=16", **OPTIONS[name])
    train, test = NWay(noisy.train, 5, 1, 5), NWay(noisy.test, 5, 1, 5)
    learner = method.meta_fit(train)
    n = 40 if name in ("lp-ft-fb", "boil") else 100
    trained = evaluate(learner, test, n=n)
    better = trained.compare(evaluate(method.untrained(noisy.card.shape, train.n_classes), test, n=n))
    assert better.difference.low > 0, f"{name}: {better}"
    again = evaluate(load(learner.save(tmp_path / "model")), test, n=n)
    assert again.frame["accuracy"].equals(trained.frame["accuracy"])


def test_frozen_stage_leaves_the_backbone_alone(noisy):
    """Between the stages of MTL and SIB, weights and batch statistics of the pre-trained network stay to the bit."""
    train = NWay(noisy.train, 5, 1, 5)
    for name, kept in (("sib", "backbone."), ("mtl", "backbone.net.")):
        states = []
        for steps in (0, 3):
            method = make(name, net="conv4:filters=8", schedule={"steps": steps}, pretrain={"steps": 5, "augment": ()})
            states.append(method.meta_fit(train).state())
        same = {k: bool((states[0][k] == states[1][k]).all()) for k in states[0]}
        assert all(v for k, v in same.items() if k.startswith(kept))
        assert not all(same.values())
