"""Memory that runs out ends in one sentence with the batch to try; methods that cannot share their work say so first."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import handful as hf
from handful.errors import BadInput
from handful.methods import make, training
from handful.nets import build
from handful.nets.compute import Compute, within_memory
from handful.nets.features import embed_images

WORLD = "world:classes=12,images=10,size=16"


def starving(*_):
    return torch.empty(1 << 55)


def test_torchs_own_refusal_is_told_and_other_errors_are_not():
    with pytest.raises(BadInput, match="memory ran out; try less"), within_memory("try less"):
        starving()
    with pytest.raises(RuntimeError, match="shapes"), within_memory("try less"):
        raise RuntimeError("shapes do not fit")


@pytest.mark.parametrize(
    "method, options, advice",
    [
        ("protonet", {"schedule.tasks": 4}, "-s schedule.tasks=2 -s schedule.accumulate=2"),
        ("protonet", {"schedule.tasks": 1}, "smaller net"),
        ("baseline", {"schedule.batch": 32, "schedule.accumulate": 3}, "-s schedule.batch=16 -s schedule.accumulate=6"),
    ],
)
def test_a_training_without_memory_names_half_the_batch(monkeypatch, method, options, advice):
    rule = hf.tasks.NWay(hf.open(WORLD).train, 2, 1, 2)
    chosen = make(method, net="conv4:filters=4", **{"schedule.steps": 2, **options})
    monkeypatch.setattr(training, "augment", starving)
    with pytest.raises(BadInput, match="memory ran out") as told:
        chosen.meta_fit(rule)
    assert advice in str(told.value)


def test_embedding_without_memory_names_half_the_batch(monkeypatch):
    net = build("conv4:filters=4", (16, 16, 3))
    monkeypatch.setattr(net, "forward", starving)
    with pytest.raises(BadInput, match="--batch 4"):
        embed_images(net, np.zeros((3, 16, 16, 3), np.uint8), Compute(batch=8))


def test_a_method_whose_learning_cannot_be_shared_says_so_under_torchrun(monkeypatch):
    from handful.methods.stages import Stage

    class Learner:
        method = make("protonet")

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    stages = [Stage("batches", work=lambda *_: pytest.fail("it began"))]
    with pytest.raises(BadInput, match="without torchrun"):
        training.walk(stages, Learner(), hf.tasks.NWay(hf.open(WORLD).train, 2, 1, 2), None, None)
