"""LP-FT and LoRA tune a pretrained encoder on a task, and leave it as it was for the next one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from handful.errors import BadInput, Mismatch
from handful.methods.contract import make
from handful.methods.finetuning.lora import LowRank
from handful.tasks import NWay
from handful.tasks.episode import Query
from made.benches import small

NET = "conv4:filters=8"


def task(shots=5):
    rule = NWay(small().test, 3, shots, 8)
    return rule.read(rule.draw(0, 1))


def loss(method, given):
    scores = method.untrained(given.support.images.shape[1:]).fit(given.support).predict(Query(given.support.images))
    return float(F.cross_entropy(torch.from_numpy(scores), torch.from_numpy(given.support.labels)))


@pytest.mark.parametrize(("name", "options"), [("lp-ft", {"tune_rate": 0.05}), ("lora", {"tune_rate": 0.02})])
def test_tuning_fits_the_support_better_than_the_probe_alone(name, options):
    given = task()
    fixed = {"net": NET, "probe_passes": 10, **options}
    assert loss(make(name, tune_passes=40, **fixed), given) < loss(make(name, tune_passes=0, **fixed), given) - 0.01


@pytest.mark.parametrize("name", ["lp-ft", "lora"])
def test_the_encoder_is_as_it_was_after_a_task(name):
    given = task()
    learner = make(name, net=NET, probe_passes=2, tune_passes=2, tune_rate=0.1).untrained((16, 16, 3))
    before = {k: v.clone() for k, v in learner.state().items()}
    first = learner.fit(given.support).predict(given.query)
    learner.fit(task(3).support)
    np.testing.assert_array_equal(first, learner.fit(given.support).predict(given.query))
    assert all(torch.equal(v, before[k]) for k, v in learner.state().items()) and set(before) == set(learner.state())


def test_a_change_starts_at_nothing_and_has_the_rank_it_says():
    layer = nn.Conv2d(6, 10, 3, bias=False)
    change = LowRank(layer.weight, 2, 8.0, torch.Generator().manual_seed(0))
    assert torch.equal(change(layer.weight), layer.weight)
    with torch.no_grad():
        change.b.normal_()
    difference = (change(layer.weight) - layer.weight).flatten(1)
    assert torch.linalg.matrix_rank(difference, atol=1e-5) == 2
    np.testing.assert_allclose(difference.detach(), (4 * change.b @ change.a).detach(), atol=1e-5)


def test_lora_leaves_all_weights_but_its_own_and_the_classifiers():
    method = make("lora", net=NET, rank=3)
    backbone, last = method.modules((16, 16, 3), 2)["backbone"], nn.Linear(8, 3)
    engine = method.tuner(backbone, last, torch.Generator().manual_seed(0))
    convolutions = sum(isinstance(m, nn.Conv2d) for m in backbone.modules())
    assert len(engine.param_groups[0]["params"]) == 2 * convolutions + 2
    assert all(p.requires_grad == (k.endswith((".a", ".b"))) for k, p in backbone.named_parameters())


def test_what_cannot_be_tuned_is_refused_in_a_sentence():
    with pytest.raises(BadInput, match="rank of lora must be at least 1, not 0"):
        make("lora", rank=0)
    with pytest.raises(Mismatch, match="lora finds no layer to change in pixels"):
        make("lora", net="pixels").untrained((16, 16, 3)).fit(task().support)
