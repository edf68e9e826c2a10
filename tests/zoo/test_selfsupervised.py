"""Self-supervised methods against loops and hand cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from handful.errors import BadInput
from handful.methods.metric.protonet import ProtoNet
from handful.methods.pieces.imagetasks import OnImages
from handful.methods.pieces.jigsaw import orders, puzzles
from handful.methods.schedule import Schedule
from handful.methods.selfsupervised.bf3s import BF3S, BF3SCosine
from handful.methods.selfsupervised.moco import Keys, MoCo, info_nce
from handful.methods.selfsupervised.simclr import SimCLR, nt_xent
from handful.methods.selfsupervised.sla import SLA
from handful.methods.selfsupervised.ssfsl import SSFSL
from handful.tasks.nway import NWay

from .helpers import NOISY, batch_of, padded_is_alone, random_task

TASKS, BATCHES = Schedule(steps=30, tasks=2), Schedule(steps=40, batch=48)
ALL = [
    SimCLR(schedule=BATCHES, smallest=0.5),
    MoCo(schedule=BATCHES, queue=128, momentum=0.99, smallest=0.5),
    SSFSL(schedule=TASKS, task="rotation"),
    SSFSL(schedule=TASKS, task="jigsaw"),
    SSFSL(schedule=TASKS, task="both"),
    BF3S(schedule=TASKS),
    BF3SCosine(schedule=BATCHES),
    SLA(schedule=TASKS),
]


@pytest.mark.parametrize("method", [SimCLR(), SimCLR(readout="logistic"), MoCo(), SSFSL(), BF3SCosine()], ids=str)
def test_padding_changes_no_answer(method):
    padded_is_alone(method)


def test_nt_xent_is_the_loop_of_the_paper():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 6)), rng.normal(size=(4, 6))
    z = np.concatenate([a, b])
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    losses = []
    for i in range(8):
        j = (i + 4) % 8
        others = [math.exp(z[i] @ z[k] / 0.5) for k in range(8) if k != i]
        losses.append(-math.log(math.exp(z[i] @ z[j] / 0.5) / sum(others)))
    assert float(nt_xent(torch.tensor(a), torch.tensor(b), 0.5)) == pytest.approx(np.mean(losses), abs=1e-9)


def test_info_nce_by_hand():
    q = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    others = torch.tensor([[0.0, 1.0]])
    want = (-math.log(math.e / (math.e + 1)) - math.log(1 / (1 + math.e))) / 2
    key = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    assert float(info_nce(q, key, others, 1.0)) == pytest.approx(want, abs=1e-6)


def test_the_queue_forgets_the_oldest_keys_and_the_encoder_follows_slowly():
    query, project = torch.nn.Linear(2, 2), torch.nn.Identity()
    keys = Keys(query, project, 2, 5)
    first = torch.arange(6.0).view(3, 2)
    keys.push(first)
    keys.push(first + 10)
    assert keys.queue.tolist() == [[14, 15], [2, 3], [4, 5], [10, 11], [12, 13]]
    assert int(keys.place) == 1
    before = keys.encoder[0].weight.clone()
    with torch.no_grad():
        query.weight.add_(1.0)
    keys.follow(query, project, 0.9)
    torch.testing.assert_close(keys.encoder[0].weight, before + 0.1)
    assert not any(p.requires_grad for p in keys.parameters())


def test_a_step_of_moco_pushes_the_batch_and_moves_the_keys():
    method = MoCo(net="conv4:filters=4", queue=32, momentum=0.5)
    m = method.untrained((32, 32, 3)).modules.train()
    keys = m["momentum"]
    with torch.no_grad():
        m["project"][0].weight.add_(1.0)
    before = keys.encoder[1][0].weight.clone()
    torch.manual_seed(0)
    loss = method.batch_loss(m, torch.randn(6, 3, 32, 32), torch.zeros(6))
    assert int(keys.place) == 6 and torch.isfinite(loss)
    torch.testing.assert_close(keys.queue[:6].norm(dim=1), torch.ones(6))
    torch.testing.assert_close(keys.encoder[1][0].weight, (before + m["project"][0].weight) / 2)


def test_jigsaw_orders_are_far_apart_and_start_with_the_image_itself():
    found = np.array(orders(35))
    assert len({tuple(o) for o in found}) == 35 and tuple(found[0]) == tuple(range(9))
    apart = [(a != b).sum() for i, a in enumerate(found) for b in found[:i]]
    assert np.mean(apart) > 7.9


def test_puzzles_hold_the_cells_in_the_order_they_name():
    cells = torch.arange(9.0).view(3, 3).repeat_interleave(12, 0).repeat_interleave(12, 1)
    pieces, labels = puzzles(cells.expand(20, 1, 36, 36), torch.Generator().manual_seed(0))
    assert pieces.shape == (20, 9, 1, 16, 16)
    want = torch.tensor(orders())[labels].float()
    torch.testing.assert_close(pieces.mean((2, 3, 4)), want, atol=1e-4, rtol=0)
    assert pieces.var((2, 3, 4)).max() < 1e-6


def test_ssfsl_without_weight_is_protonet():
    train = NWay(NOISY.train, 4, 1, 3)
    schedule = Schedule(steps=2)
    plain = ProtoNet(net="conv4:filters=4", schedule=schedule).meta_fit(train).backbone.state_dict()
    auxiliary = SSFSL(net="conv4:filters=4", schedule=schedule, weight=0.0).meta_fit(train).backbone.state_dict()
    for name, value in plain.items():
        if "running" not in name and "batches" not in name:
            torch.testing.assert_close(auxiliary[name], value)


def test_the_loss_on_images_is_the_loss_on_features():
    """OnImages without an addition trains exactly as the plain method does."""

    class Plain(OnImages, ProtoNet):
        pass

    train = NWay(NOISY.train, 4, 1, 3)
    options = {"net": "conv4:filters=4", "schedule": Schedule(steps=3, tasks=2, augment=("flip",))}
    a, b = ProtoNet(**options).meta_fit(train).state(), Plain(**options).meta_fit(train).state()
    for name, value in a.items():
        torch.testing.assert_close(b[name], value)


def test_sla_aggregates_the_four_turns():
    method = SLA(net="conv4:filters=4")
    s, y, q = random_task(0, (4, 5), ways=3, shots=2)
    got = method.head(torch.nn.ModuleDict(), batch_of((s.flatten(1), y, q.flatten(1))))[0].numpy()
    means = np.stack([s.numpy()[y == c].mean(0) for c in range(3)])
    want = -((q.numpy()[:, None] - means[None]) ** 2).sum(-1).mean(-1)
    assert got == pytest.approx(want, abs=1e-4)


def test_sla_trains_on_the_joint_label():
    method = SLA(net="conv4:filters=4")
    s, y, q = random_task(1, (4, 5), ways=2, shots=1, queries=3)
    labels = torch.tensor([[0, 1, 1]])
    got = float(method.task_loss(torch.nn.ModuleDict(), batch_of((s.flatten(1), y, q.flatten(1))), labels))
    means = np.stack([s.numpy()[y == c].mean(0) for c in range(2)])
    losses = []
    for i, label in enumerate(labels[0].tolist()):
        for turn in range(4):
            logits = [-((q[i, turn].numpy() - means[c, j]) ** 2).sum() for j in range(4) for c in range(2)]
            losses.append(float(F.cross_entropy(torch.tensor([logits]), torch.tensor([turn * 2 + label]))))
    assert got == pytest.approx(np.mean(losses), rel=1e-4)


def test_sla_sees_an_image_and_its_turns():
    backbone = SLA(net="pixels").modules((4, 4, 1), 2)["backbone"]
    x = torch.rand(2, 1, 4, 4)
    features = backbone(x).unflatten(1, (4, 16))
    for k in range(4):
        torch.testing.assert_close(features[:, k], torch.rot90(x, k, (2, 3)).flatten(1))


def test_unsound_options_are_refused():
    with pytest.raises(BadInput, match="temperature"):
        SimCLR(temperature=0)
    with pytest.raises(BadInput, match="queue"):
        MoCo(queue=0)
    with pytest.raises(BadInput, match="weight"):
        SSFSL(weight=2)
