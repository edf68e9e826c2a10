"""Methods that need longer than the suite has to learn the world (benchmarks/zoo_learns.py shows that they do) learn blobs."""

from __future__ import annotations

from typing import Any

import pytest

from handful.methods.contract import make
from handful.runs.evaluate import evaluate
from handful.tasks.nway import NWay
from learning import decide
from made.zoo import NOISY, WORLD

NET = {"net": "conv4:filters=16"}
GRAPH = {**NET, "ways": 3, "width": 32, "hidden": 32, "schedule": {"steps": 140, "tasks": 3, "rate": 3e-3}}
PAIRED = {**NET, "schedule": {"steps": 80, "tasks": 3, "rate": 3e-3}}
SPREAD = {**NET, "schedule": {"steps": 50, "tasks": 3, "rate": 3e-3}}
VIEWS = {**NET, "schedule": {"steps": 40, "batch": 48}, "smallest": 0.5}
# ATA's rate of 80 for 224 x 224 at 32 x 32, and fewer of its steps.
ASCENT = {"ascent_rate": 1.63, "ascents": 2}
STAGED = {"pretrain": {"steps": 30, "batch": 48, "augment": ()}}
INNER = {"inner_steps": 2, "test_steps": 2, "inner_rate": 0.3}

# name -> options; ways, the collection
LEARNERS: dict[str, tuple[dict[str, Any], int, Any]] = {
    "frn": ({**NET, **STAGED, "schedule": {"steps": 60, "tasks": 2, "augment": (), "rate": 0.05}}, 5, WORLD),
    "maml": ({**NET, **INNER, "schedule": {"steps": 40, "tasks": 2}}, 5, WORLD),
    "boil": ({**NET, **INNER, "schedule": {"steps": 40, "tasks": 4}}, 5, WORLD),
    "renet": ({**NET, "hidden": 16, "schedule": {"steps": 40, "tasks": 2, "rate": 2e-3}}, 5, WORLD),
    "fgfl": ({**NET, **STAGED, "schedule": {"steps": 30, "tasks": 2}}, 5, NOISY),
    "ssfsl": ({**NET, "schedule": {"steps": 30, "tasks": 2}}, 5, NOISY),
    "simclr": (VIEWS, 5, NOISY),
    "moco": ({**VIEWS, "queue": 128, "momentum": 0.99}, 5, NOISY),
    "gnn": (GRAPH, 3, WORLD),
    "gnn+ft": (GRAPH, 3, WORLD),
    "gnn+ata": ({**GRAPH, **ASCENT}, 3, WORLD),
    "gnn+lrp": (GRAPH, 3, WORLD),
    "relationnet+ata": ({**PAIRED, **ASCENT}, 3, WORLD),
    "tpn+ft": (SPREAD, 3, WORLD),
    "tpn+ata": ({**SPREAD, **ASCENT}, 3, WORLD),
}


@pytest.mark.slow
@pytest.mark.learning
@pytest.mark.parametrize("name", LEARNERS)
def test_training_beats_no_training(name):
    options, ways, collection = LEARNERS[name]
    method = make(name, **options)
    train, test = NWay(collection.train, ways, 1, 5), NWay(collection.test, ways, 1, 3)
    after = evaluate(method.meta_fit(train), test, n=120)
    before = evaluate(method.untrained(train.image_shape, train.n_classes), test, n=120)
    decide(after.compare(before).difference, above=0)
