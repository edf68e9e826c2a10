"""Self-supervised methods against loops and hand cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from handful.errors import BadInput
from handful.methods.layers.imagetasks import OnImages, read
from handful.methods.layers.jigsaw import orders, puzzles
from handful.methods.metric.protonet import ProtoNet
from handful.methods.schedule import Schedule
from handful.methods.selfsupervised.bf3s import BF3S, BF3SCosine
from handful.methods.selfsupervised.moco import Keys, MoCo, info_nce
from handful.methods.selfsupervised.simclr import SimCLR
from handful.methods.selfsupervised.sla import SLA
from handful.methods.selfsupervised.ssfsl import SSFSL
from handful.tasks.nway import NWay
from made.zoo import NOISY, batch_of, padded_is_alone, random_task


@pytest.mark.parametrize("method", [SimCLR(), SimCLR(readout="logistic"), MoCo(), SSFSL(), BF3SCosine()], ids=str)
def test_padding_changes_no_answer(method):
    padded_is_alone(method)


def test_simclr_asks_each_view_for_its_partner(monkeypatch):
    """Views as they come, one after the other: the paper's loop over what head and backbone make of them."""
    method = SimCLR(net="conv4:filters=4", out=3)
    m = method.untrained((16, 16, 3)).modules
    views = torch.rand(2, 4, 3, 16, 16)
    given = iter(views)
    monkeypatch.setattr("handful.methods.selfsupervised.simclr.random_view", lambda x, smallest: next(given))
    with torch.no_grad():
        got = float(method.batch_loss(m, torch.zeros(4, 3, 16, 16), torch.zeros(4)))
        z = m["project"](m["backbone"](views.flatten(0, 1))).double().numpy()
    z = z / np.linalg.norm(z, axis=1, keepdims=True)
    losses = []
    for i in range(8):
        others = [math.exp(z[i] @ z[k] / 0.5) for k in range(8) if k != i]
        losses.append(-math.log(math.exp(z[i] @ z[(i + 4) % 8] / 0.5) / sum(others)))
    assert got == pytest.approx(np.mean(losses), abs=1e-5)


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
    """Brightness rises in a direction of its own in each cell; which one it is survives what makes patches alike."""
    row, column = torch.meshgrid(torch.arange(36.0), torch.arange(36.0), indexing="ij")
    angle = 2 * torch.pi / 9 * (row // 12 * 3 + column // 12)
    picture = (angle.cos() * (column % 12) + angle.sin() * (row % 12)).expand(20, 1, 36, 36)
    pieces, labels = puzzles(picture, torch.Generator().manual_seed(0))
    assert pieces.shape == (20, 9, 1, 16, 16)
    across, down = (pieces.diff(dim=d).mean((2, 3, 4)) for d in (4, 3))
    found = (torch.atan2(down, across) / (2 * torch.pi / 9)).round() % 9
    torch.testing.assert_close(found, torch.tensor(orders())[labels].float())


def test_brightness_and_colour_of_the_patches_do_not_give_their_order_away():
    """Ground is dark and green, sky bright and blue: least squares from means and deviations would find most orders."""
    g = torch.Generator().manual_seed(0)
    height = torch.linspace(1, 0, 36).view(1, 1, 36, 1)
    width = torch.linspace(0, 1, 36).view(1, 1, 1, 36)
    tint = torch.tensor([0.2, -0.6, 0.9]).view(1, 3, 1, 1)
    x = 0.5 + height * tint + width * tint.flip(1) + 0.1 * torch.randn(3000, 3, 36, 36, generator=g)
    pieces, labels = puzzles(x, g)
    spread, mean = torch.std_mean(pieces, (3, 4))
    told = torch.cat([mean.flatten(1), spread.flatten(1), torch.ones(3000, 1)], 1).double()
    learn, ask = slice(0, 2400), slice(2400, 3000)
    weights = torch.linalg.lstsq(told[learn], F.one_hot(labels[learn], 35).double(), driver="gelsd").solution
    right = ((told[ask] @ weights).argmax(1) == labels[ask]).double().mean()
    assert float(right) < 0.1, "chance is 0.03"


def test_three_puzzles_of_ten_are_grey():
    x = torch.rand(1000, 3, 24, 24, generator=torch.Generator().manual_seed(0))
    pieces, _ = puzzles(x, torch.Generator().manual_seed(1))
    grey = (pieces[:, :, 0] - pieces[:, :, 2]).abs().amax((1, 2, 3)) < 1e-4
    assert 240 < int(grey.sum()) < 360


def test_ssfsl_without_weight_is_protonet():
    train = NWay(NOISY.train, 4, 1, 3)
    schedule = Schedule(steps=2)
    plain = ProtoNet(net="conv4:filters=4", schedule=schedule).meta_fit(train).backbone.state_dict()
    auxiliary = SSFSL(net="conv4:filters=4", schedule=schedule, weight=0.0).meta_fit(train).backbone.state_dict()
    for name, value in plain.items():
        if "running" not in name and "batches" not in name:
            torch.testing.assert_close(auxiliary[name], value)


def turned_by_hand(m, x):
    """Cross-entropy of the turn, image by image and turn by turn, in evaluation mode."""
    losses = []
    for turn in range(4):
        maps = m["backbone"].maps(torch.rot90(x, turn, (2, 3)))
        block = m["rotation"]
        h = block.body[3:](F.relu(block.body[:2](maps)))
        scores = block.last(F.relu(maps + h).mean((2, 3)))
        losses.append(-torch.log_softmax(scores, -1)[:, turn].mean())
    return float(torch.stack(losses).mean())


def test_bf3s_adds_the_rotation_loss_to_protonets():
    train = NWay(NOISY.train, 3, 1, 2)
    method = BF3S(net="conv4:filters=4", weight=2.0)
    learner = method.untrained(train.image_shape, train.n_classes)
    class_of = {int(r): int(c) for r, c in zip(train.part.rows, train.part.classes, strict=True)}
    tasks = [train.read(e) for e in train.draw_block(0, 0, 2)]
    images, m = read(learner, tasks, class_of, (), torch.Generator()), learner.modules
    with torch.no_grad():
        got = float(method.image_loss(m, images))
        plain = float(ProtoNet().task_loss(m, images.batch(m["backbone"](images.x)), images.labels))
        assert got == pytest.approx(plain + 2 * turned_by_hand(m, images.x), abs=1e-5)


def test_bf3s_cosine_adds_it_to_a_cosine_classifier_of_learned_scale():
    method = BF3SCosine(net="conv4:filters=4", weight=0.5)
    m = method.untrained((16, 16, 3), 3).modules
    x, labels = torch.rand(5, 3, 16, 16), torch.tensor([0, 2, 1, 1, 0])
    assert m["classifier"].scale.requires_grad
    with torch.no_grad():
        m["classifier"].scale.fill_(4.0)
        cosines = F.cosine_similarity(m["backbone"](x)[:, None], m["classifier"].weight[None], -1)
        want = float(F.cross_entropy(4 * cosines, labels)) + 0.5 * turned_by_hand(m, x)
        assert float(method.batch_loss(m, x, labels)) == pytest.approx(want, abs=1e-5)
        s, y, q = random_task(2, (4,), ways=3, shots=2)
        means = torch.stack([s[torch.as_tensor(y == c)].mean(0) for c in range(3)])
        got = method.head(m, batch_of((s, y, q)))[0]
        torch.testing.assert_close(got, 4 * F.cosine_similarity(q[:, None], means[None], -1), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("task", ["rotation", "jigsaw", "both"])
def test_ssfsl_mixes_the_losses_by_its_weight(task):
    train = NWay(NOISY.train, 3, 1, 2)
    method = SSFSL(net="conv4:filters=4", task=task, weight=0.3, hidden=8)
    learner = method.untrained(train.image_shape, train.n_classes)
    class_of = {int(r): int(c) for r, c in zip(train.part.rows, train.part.classes, strict=True)}
    tasks, m = [train.read(train.draw(0, 0))], learner.modules
    images = read(learner, tasks, class_of, (), torch.Generator().manual_seed(0))
    net = m["backbone"]
    with torch.no_grad():
        got = float(method.image_loss(m, images))
        parts = []
        if task != "jigsaw":
            scores = [m["rotation"](net.maps(torch.rot90(images.x, k, (2, 3))).mean((2, 3))) for k in range(4)]
            parts.append(np.mean([float(-torch.log_softmax(s, -1)[:, k].mean()) for k, s in enumerate(scores)]))
        if task != "rotation":
            pieces, order = puzzles(images.x, torch.Generator().manual_seed(0))
            one = torch.cat([m["jigsaw"].each(net.maps(pieces[:, i]).mean((2, 3))) for i in range(9)], 1)
            parts.append(float(F.cross_entropy(m["jigsaw"].all(one), order)))
        plain = float(ProtoNet().task_loss(m, images.batch(net(images.x)), images.labels))
    assert got == pytest.approx(0.7 * plain + 0.3 * np.mean(parts), abs=1e-4)


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
