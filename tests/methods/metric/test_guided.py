"""FGFL and PUTM: frequencies, masks and transport against references computed another way."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.fft import dctn

from handful.errors import BadInput
from handful.methods.batch import pad
from handful.methods.contract import make
from handful.methods.layers.dct import colours, luminance, to_frequencies, to_pixels
from handful.methods.layers.imagetasks import read
from handful.methods.metric.fgfl import FGFL, Reversed, frequencies, pixels, still
from handful.methods.metric.protonet import ProtoNet
from handful.methods.metric.putm import PUTM, navigate, transport_cost
from handful.nets import build
from handful.tasks.nway import NWay
from made.zoo import WORLD, batch_of, random_task

SMALL = {"net": "conv4:filters=8"}


def test_blocks_are_scipys_dct_and_go_back():
    x = torch.randn(2, 3, 24, 16, dtype=torch.float64)
    waves = to_frequencies(x)
    for row in range(0, 24, 8):
        for column in range(0, 16, 8):
            block = np.s_[1, 2, row : row + 8, column : column + 8]
            np.testing.assert_allclose(waves[block], dctn(x[block].numpy(), norm="ortho"), atol=1e-12)
    torch.testing.assert_close(to_pixels(waves, 24, 16), x)
    odd = torch.randn(1, 1, 21, 30, dtype=torch.float64)
    assert to_frequencies(odd).shape == (1, 1, 24, 32)
    torch.testing.assert_close(to_pixels(to_frequencies(odd), 21, 30), odd)


def test_colours_go_to_luminance_and_back():
    x = torch.rand(2, 3, 4, 4)
    y = luminance(x)
    torch.testing.assert_close(y[:, 0], 0.299 * x[:, 0] + 0.587 * x[:, 1] + 0.114 * x[:, 2])
    torch.testing.assert_close(colours(y), x, atol=1e-5, rtol=1e-5)
    grey = torch.full((1, 3, 2, 2), 0.4)
    torch.testing.assert_close(luminance(grey)[:, 1:], torch.zeros(1, 2, 2, 2), atol=1e-6, rtol=0)


@pytest.mark.parametrize("spec", ["conv4:filters=8", "resnet12"])
def test_unmasked_frequencies_give_the_image_back(spec):
    net = build(spec, (32, 32, 3))
    x = net.normalise(torch.randint(0, 256, (2, 32, 32, 3), dtype=torch.uint8))
    waves = frequencies(net, x)
    assert float(waves[:, 0].abs().max()) > 100, "on the scale of 0..255"
    torch.testing.assert_close(pixels(net, waves, x), x, atol=1e-4, rtol=1e-4)


def test_the_mask_is_grad_cam_by_hand():
    method = FGFL(sharpness=10.0, threshold=0.5)
    maps = torch.tensor([[[[1.0, 2.0]], [[3.0, 0.0]]], [[[0.0, 1.0]], [[1.0, 1.0]]]], requires_grad=True)
    weight = torch.tensor([[1.0, -1.0], [0.5, 2.0]])  # class by channel
    scores = (maps.mean((2, 3)) @ weight.T)[None]
    mask = method.mask(scores, torch.tensor([[0, 1]]), maps, (1, 2))
    # slopes: image 0, class 0: (1, -1) / 2 a place; image 1, class 1: (0.5, 2) / 2
    cam = np.array([[0.5 * 1 - 0.5 * 3, 0.5 * 2 - 0], [0.25 * 0 + 1.0 * 1, 0.25 * 1 + 1.0 * 1]]).clip(0)
    scaled = (cam - cam.min()) / (cam.max() - cam.min())
    expected = 1 / (1 + np.exp(-10 * (scaled - 0.5)))
    np.testing.assert_allclose(mask.detach().numpy().reshape(2, 2), expected, atol=1e-5)


def test_reversed_gradients_are_reversed():
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    y = Reversed.apply(x, 0.5)
    assert torch.equal(y, x)
    (y * torch.tensor([1.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [-0.5, -2.0]


def step_of(method, seed=0):
    train = NWay(WORLD.train, 3, 1, 3)
    learner = method.untrained(train.image_shape, train.n_classes)
    class_of = {int(r): int(c) for r, c in zip(train.part.rows, train.part.classes, strict=True)}
    tasks = [train.read(train.draw(seed, i)) for i in range(2)]
    return learner.modules.train(), read(learner, tasks, class_of, (), torch.Generator().manual_seed(seed))


def test_without_guidance_the_image_network_is_trained_as_protonets_is():
    grads = []
    for method in (ProtoNet(**SMALL, temperature=64.0), FGFL(**SMALL, against=0, augmented=0, apart=0)):
        m, images = step_of(method)
        if isinstance(method, FGFL):
            method.image_loss(m, images).backward()
        else:
            method.task_loss(m, images.batch(m["backbone"](images.x)), images.labels).backward()
        grads.append([p.grad for p in m["backbone"].parameters()])
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b)


def test_guidance_reaches_both_networks_and_the_answers_are_protonets():
    method = FGFL(**SMALL)
    m, images = step_of(method)
    method.image_loss(m, images).backward()
    with_it = [p.grad.clone() for p in m["backbone"].parameters()]
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in m["frequency"].parameters())
    m, images = step_of(method)
    plain = FGFL(**SMALL, against=0, augmented=0, apart=0)
    plain.image_loss(m, images).backward()
    assert any(not torch.allclose(a, p.grad) for a, p in zip(with_it, m["backbone"].parameters(), strict=True))
    b = batch_of(random_task(0, (8,)))
    torch.testing.assert_close(method.head(m, b), ProtoNet().head(m, b) / 64)


def test_the_mask_is_the_public_codes():
    """`gen_freq_mask` of chenghao-ch94/FGFL at 7922cd3 with a convolution as its network: two classes, one shot, one query."""
    wave = lambda step, *shape: torch.sin(step * torch.arange(math.prod(shape)).float()).view(*shape)  # noqa: E731
    scores = [[0.0218, -0.0096], [-0.0094, 0.0214], [-0.0083, -0.0211], [0.0213, 0.0088]]
    fourth_rows = [
        [0.0, 0.0, 0.0, 0.0, 0.9916, 1.0, 1.0],
        [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0],
        [1.0, 1.0, 1.0, 0.9988, 0.7635, 0.012, 0.0],
        [1.0, 1.0, 0.9549, 0.0, 0.0, 0.0, 0.0],
    ]
    method, labels = FGFL(**SMALL), np.asarray([0, 1])
    maps = F.conv2d(wave(0.7, 4, 3, 7, 7), wave(1.3, 4, 3, 3, 3), stride=2).requires_grad_()
    seen = maps.mean((2, 3))
    b = batch_of((seen[:2], labels, seen[2:]))
    got = method.frequency_scores(b, b)
    np.testing.assert_allclose(got[0].detach().numpy(), scores, atol=6e-5)
    mask = method.mask(got, torch.tensor([[0, 1, 0, 1]]), maps, (7, 7))
    np.testing.assert_allclose(mask[:, 0, 3].detach().numpy(), fourth_rows, atol=2e-4)


def test_pretraining_teaches_both_networks_and_tasks_leave_the_classifiers_alone():
    states = []
    for first, second in ((0, 0), (3, 0), (3, 2)):
        brief = {"schedule": {"steps": second}, "pretrain": {"steps": first, "batch": 16, "augment": ()}}
        states.append(make("fgfl", **SMALL, **brief).meta_fit(NWay(WORLD.train, 3, 1, 3)).state())
    moved = lambda a, b, part: any(not torch.equal(v, b[k]) for k, v in a.items() if k.startswith(part + "."))  # noqa: E731
    parts = ("backbone", "frequency", "classifier", "frequency_classifier")
    assert [moved(states[0], states[1], part) for part in parts] == [True] * 4
    assert [moved(states[1], states[2], part) for part in parts] == [True, True, False, False]


def test_a_still_pass_leaves_batch_norm_as_it_was():
    net = build("conv4:filters=4", (16, 16, 3)).train()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    x = torch.rand(3, 3, 16, 16)
    got = still(net, x)
    assert net.training and all(layer.training for layer in net.modules())
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())
    torch.testing.assert_close(got, net.eval()(x))


def test_navigators_and_cost_are_conditional_transport_by_loops():
    rng = np.random.default_rng(0)
    scores, cost = rng.normal(size=(4, 3)), rng.random((4, 3))
    there = sum(np.exp(s) / np.exp(s).sum() @ c for s, c in zip(scores, cost, strict=True)) / 4
    back = sum(np.exp(s) / np.exp(s).sum() @ c for s, c in zip(scores.T, cost.T, strict=True)) / 3
    # a fifth query and a fourth class are padding
    padded = torch.full((1, 5, 4), 7.0, dtype=torch.float64)
    padded[0, :4, :3] = torch.from_numpy(scores)
    costs = torch.full((1, 5, 4), 9.0, dtype=torch.float64)
    costs[0, :4, :3] = torch.from_numpy(cost)
    here, absent = torch.tensor([[True] * 4 + [False]]), torch.tensor([[False] * 3 + [True]])
    forward, backward = navigate(padded, here, absent)
    got = transport_cost(costs, forward.exp(), backward.exp(), here, absent, 0.3)
    assert float(got) == pytest.approx(0.3 * there + 0.7 * back, abs=1e-9)


def test_prototypes_move_by_the_share_of_the_queries(monkeypatch):
    """One round with known shares: μ ← μ + α (mean of support and queries by share - μ)."""
    seen = []
    share = torch.tensor([[[0.75, 0.25], [0.5, 0.5], [0.0, 1.0]]], dtype=torch.float64)

    def fixed(self, navigators, q, means, here, absent):
        seen.append(means)
        return share.log()

    monkeypatch.setattr(PUTM, "transport", fixed)
    s, q = torch.eye(3)[:2], torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    method = PUTM(net="pixels", iterations=1, power=1.0, step=0.5)
    m = method.untrained((3,), 2).modules
    method.head(m, pad([(s, np.array([0, 1]), q)], [(2,)], [0]))
    unit = F.normalize(q + 1e-6, dim=-1).numpy()
    first = (s[0].numpy() + 0.75 * unit[0] + 0.5 * unit[1]) / 2.25
    np.testing.assert_allclose(seen[0][0], s, atol=1e-5)
    np.testing.assert_allclose(seen[1][0, 0], s[0].numpy() + 0.5 * (first - s[0].numpy()), atol=1e-5)


def test_queries_far_from_an_unlucky_support_are_found_however_many_a_class_has():
    """Three clusters of 12, 3 and 1 queries, the support at the clusters' edges: prototypes move to their middles."""
    rng = np.random.default_rng(1)
    centres = 3 * np.eye(3, 12) + 1
    labels = np.repeat([0, 1, 2], [12, 3, 1])
    q = np.maximum(centres[labels] + 0.35 * rng.normal(size=(16, 12)), 0)
    s = np.maximum(centres + 1.5 * rng.normal(size=(3, 12)), 0)
    task = (torch.tensor(s).float(), np.arange(3), torch.tensor(q).float())
    method = PUTM(net="pixels", iterations=20, inner_steps=20)
    m = method.untrained((12,), 3).modules
    with torch.no_grad():
        answers = method.head(m, batch_of(task))[0].argmax(-1).numpy()
    assert (answers == labels).mean() >= 15 / 16


def test_putm_moves_further_at_one_shot():
    one, more = batch_of(random_task(0, (2,), shots=1)), batch_of(random_task(0, (2,), shots=3))
    assert float(PUTM().step_of(one)) == pytest.approx(0.2) and float(PUTM().step_of(more)) == pytest.approx(0.1)


def test_padding_changes_no_answer_of_putm():
    method = PUTM(net="pixels", iterations=3, inner_steps=4)
    m = method.untrained((6,), 3).modules
    tasks = [random_task(0, (6,), ways=2, shots=1, queries=5), random_task(1, (6,), ways=4, shots=3, queries=2)]
    with torch.no_grad():
        together = method.head(m, pad(tasks, [(2,), (4,)], [5, 9]))
        for i, (task, seed) in enumerate(zip(tasks, (5, 9), strict=True)):
            alone = method.head(m, pad([task], [(int(task[1].max()) + 1,)], [seed]))[0]
            torch.testing.assert_close(together[i, : alone.shape[0], : alone.shape[1]], alone, atol=1e-4, rtol=1e-4)


def test_unsound_options_are_refused():
    with pytest.raises(BadInput, match="balance"):
        PUTM(balance=1.5)
    with pytest.raises(BadInput, match="frequency_temperature"):
        FGFL(frequency_temperature=0)
