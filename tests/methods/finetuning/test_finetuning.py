"""Fine-tuning methods: what a task's training does step by step, and the losses of pre-training, against plain loops."""

from __future__ import annotations

import copy
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from handful.methods.batch import pad
from handful.methods.contract import make
from handful.methods.finetuning.frn import Categories, Reconstruction, overlap
from handful.methods.heads import CosineClassifier, first_weights
from handful.methods.layers.contrast import info_nce, nt_xent, supervised
from handful.tasks.episode import Query, Support
from made.zoo import batch_of, random_task


class PublicCosine(nn.Module):
    """What the head of wyharveychen/CloserLookFewShot (e03aca8, backbone.distLinear) computes, from torch's own parts: a
    bias-free linear layer under weight norm on normalised features, times 2."""

    def __init__(self, width: int, n_classes: int):
        super().__init__()
        self.layer = nn.utils.parametrizations.weight_norm(nn.Linear(width, n_classes, bias=False), dim=0)

    def forward(self, x):
        return 2 * self.layer(x / (x.norm(dim=1, keepdim=True) + 1e-5))


class FixedCosine(nn.Linear):
    def forward(self, x):
        return self.scale * F.cosine_similarity(x[:, None], self.weight[None], -1)


def public(name: str, width: int, n_classes: int) -> nn.Module:
    """The classifier of a task as its public code makes it, started by torch's own defaults."""
    if name in ("baseline++", "cosine"):
        return PublicCosine(width, n_classes)
    if name in ("baseline", "linear"):
        return nn.Linear(width, n_classes)
    layer = FixedCosine(width, n_classes, bias=False)
    layer.scale = 5.0
    return layer


def learn(layer: nn.Module, s, y, *, passes: int, rate: float, decay: float, size: int, orders=None) -> None:
    optimiser = torch.optim.SGD(layer.parameters(), rate, momentum=0.9, dampening=0.9, weight_decay=decay)
    for _ in range(passes):
        for pick in torch.randperm(len(y), generator=orders).split(size):
            optimiser.zero_grad()
            F.cross_entropy(layer(s[pick]), torch.as_tensor(y)[pick]).backward()
            optimiser.step()


@pytest.mark.parametrize("name", ["baseline", "linear", "baseline++", "cosine", "neg-cosine"])
def test_a_task_is_learned_as_torchs_own_layers_learn_it(name):
    """Two tasks of unequal size in one batch, each against torch's SGD on a layer with the same start and order."""
    tasks = [random_task(0, (6,), ways=3, shots=3), random_task(1, (6,), ways=2, shots=1)]
    b = pad(tasks, [(3,), (2,)], [5, 6])
    method = make(name, net="pixels", passes=4, rate=0.2, weight_decay=0.01)
    got = method.head(nn.ModuleDict(), b)
    weights, biases = first_weights(b)
    for i, ((s, y, q), seed) in enumerate(zip(tasks, (5, 6), strict=True)):
        n = int(y.max()) + 1
        layer = public(name, 6, n)
        with torch.no_grad():
            if name in ("baseline++", "cosine"):
                layer.layer.weight = weights[i, :n]
            else:
                layer.weight.copy_(weights[i, :n])
            if name in ("baseline", "linear"):
                layer.bias.copy_(biases[i, :n])
        learn(layer, s, y, passes=4, rate=0.2, decay=0.01, size=4, orders=torch.Generator().manual_seed(seed ^ 0x5EED))
        torch.testing.assert_close(got[i, :, :n], layer(q).detach(), atol=1e-4, rtol=1e-4)


def planted_features(width: int, zeros: int = 0, shots: int = 1, tasks: int = 40):
    """Five classes of Gaussian features that overlap, with so many columns of zeros beside."""
    generator = torch.Generator().manual_seed(1)
    out = []
    for _ in range(tasks):
        means = torch.randn(5, 1, width, generator=generator)
        x = means + 1.2 * torch.randn(5, shots + 15, width, generator=generator)
        x = torch.cat([x, x.new_zeros(5, shots + 15, zeros)], -1)
        y = np.repeat(np.arange(5), shots)
        out.append((x[:, :shots].flatten(0, 1), y, x[:, shots:].flatten(0, 1)))
    return out


def accuracy(scores, tasks) -> float:
    truth = torch.arange(5).repeat_interleave(15)
    return float(torch.stack([(s.argmax(-1) == truth).float().mean() for s in scores]).mean())


@pytest.mark.parametrize("name", ["baseline", "linear", "baseline++", "neg-cosine", "cosine"])
@pytest.mark.parametrize("shots", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_a_task_is_learned_as_well_as_by_the_public_head(name, shots):
    """On the same features, from each one's own start; a start of 0.01 times noise loses five to twenty points."""
    tasks = planted_features(64, shots=shots)
    b = pad(tasks, [(5,)] * len(tasks), list(range(len(tasks))))
    ours = accuracy(make(name, net="pixels").head(nn.ModuleDict(), b), tasks)
    scores = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for s, y, q in tasks:
            layer = public(name, 64, 5)
            learn(layer, s, y, passes=100, rate=0.01, decay=0.001, size=4)
            scores.append(layer(q).detach())
    assert abs(ours - accuracy(scores, tasks)) < 0.03


@pytest.mark.parametrize("name", ["baseline++", "neg-cosine", "cosine"])
def test_a_wider_backbone_costs_a_cosine_head_nothing(name):
    """Columns of zeros leave every cosine as it is; a start whose length grew with the width would slow the learning."""
    found = []
    for zeros in (0, 576):
        tasks = planted_features(64, zeros, shots=5)
        b = pad(tasks, [(5,)] * len(tasks), list(range(len(tasks))))
        found.append(accuracy(make(name, net="pixels").head(nn.ModuleDict(), b), tasks))
        prototypes = accuracy(make("protonet", net="pixels", distance="cosine").head(nn.ModuleDict(), b), tasks)
        assert found[-1] > prototypes - 0.02
    assert found[1] > found[0] - 0.01


def test_a_cosine_classifier_by_hand():
    layer = CosineClassifier(2, 2, scale=5.0)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[2.0, 0.0], [3.0, 4.0]]))
    assert layer(torch.tensor([[0.0, 7.0]]))[0].tolist() == pytest.approx([0.0, 4.0], abs=1e-5)
    assert not layer.scale.requires_grad and CosineClassifier(2, 2, learn_scale=True).scale.requires_grad


def test_frns_auxiliary_in_both_readings_by_loops():
    tasks = [random_task(0, (3, 2, 1), ways=3, shots=2), random_task(1, (3, 2, 1), ways=2, shots=1)]
    b = batch_of(*tasks)
    found = {"descriptor": [], "support": []}
    for s, y, _ in tasks:
        rows = s.double().numpy().transpose(0, 2, 3, 1).reshape(len(s), -1, 3)
        sets = [rows[y == c].reshape(-1, 3) for c in range(y.max() + 1)]
        unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in sets]
        whole = np.sqrt(sum((x**2).sum() for x in sets))
        both = [(i, j) for i in range(len(sets)) for j in range(len(sets)) if i != j]
        found["descriptor"].append(sum(((unit[i] @ unit[j].T) ** 2).sum() for i, j in both))
        found["support"].append(sum(((sets[i] @ sets[j].T / whole**2) ** 2).sum() for i, j in both if i < j))
    for unit, values in found.items():
        assert float(overlap(b, unit)) == pytest.approx(np.mean(values), rel=1e-4)


def test_frns_pretraining_is_the_public_codes():
    """`forward_pretrain` of Tsingularity/FRN at 64e43f3 in double precision: maps of a sine, class maps of another."""
    wave = lambda step, *shape: torch.sin(step * torch.arange(math.prod(shape)).double()).view(*shape)  # noqa: E731
    theirs = [
        [-6.01915, -0.9143, -0.51622],
        [-7.90446, -1.00108, -0.45863],
        [-7.04237, -0.9609, -0.48357],
        [-6.14894, -0.91991, -0.51198],
        [-8.03986, -1.00768, -0.45474],
    ]
    m = nn.ModuleDict({"reconstruction": Reconstruction(), "categories": Categories(3, 6, 4)}).double()
    with torch.no_grad():
        m["categories"].maps.copy_(wave(1.3, 3, 6, 4) * torch.tensor([1.0, 2.0, 3.0])[:, None, None])
        m["reconstruction"].gamma.fill_(20.0)
        m["reconstruction"].alpha.fill_(0.5)  # pre-training takes neither into account
        m["reconstruction"].beta.fill_(-0.5)
    got = torch.log_softmax(make("frn").named(m, 5 * wave(0.7, 5, 4, 2, 3)), -1)
    assert got.detach().numpy() == pytest.approx(np.array(theirs), abs=5e-5)
    F.nll_loss(got, torch.tensor([0, 1, 2, 0, 1])).backward()
    slope = m["categories"].maps.grad[0, 0].tolist()
    assert slope == pytest.approx([9.547004, -0.136198, 5.261405, 6.203102], abs=5e-4)
    assert m["reconstruction"].gamma.grad.item() == pytest.approx(0.11293, abs=1e-5)
    assert m["reconstruction"].alpha.grad is None and m["reconstruction"].beta.grad is None


def test_lp_ft_fbs_probe_is_the_public_codes():
    """`LinearClassifier` of whzyf951620/LinearProbingFinetuningFirthBias at 5acc53c (utils.py): 20 passes over six features at
    once, Firth weight 1, from the weights of a sine, and its scores of four others."""
    wave = lambda step, *shape: torch.sin(step * torch.arange(math.prod(shape)).float()).view(*shape)  # noqa: E731
    theirs = [
        [0.21651, 0.53212, -0.82658],
        [0.75899, -0.17314, -0.56171],
        [0.70014, -0.67588, 0.07332],
        [0.13084, -0.72349, 0.698],
    ]
    learner = make("lp-ft-fb", net="pixels", probe_passes=20, task_batch=0).untrained((8,))
    orders = torch.Generator().manual_seed(0)
    last = learner.first(8, 3, orders)
    with torch.no_grad():
        last.weight.copy_(wave(1.3, 3, 8) * 8**-0.5)
        last.norm.copy_(last.weight.norm(dim=-1))
        before = last(wave(0.9, 4, 8)).numpy()
    learner.probe(last, 3 * wave(0.7, 6, 8), torch.tensor([0, 1, 2, 0, 1, 2]), orders)
    got = last(wave(0.9, 4, 8)).detach().numpy()
    assert got == pytest.approx(np.array(theirs), abs=1e-4)
    assert abs(got - before).max() > 0.005, "the passes have moved it"


def test_lp_ft_fb_tunes_by_a_step_down_the_penalised_loss():
    rng = np.random.default_rng(0)
    images, y = rng.integers(0, 256, (6, 16, 16, 3), dtype=np.uint8), np.asarray([0, 0, 0, 1, 1, 1])
    options = {"probe_passes": 0, "tune_passes": 1, "tune_rate": 0.3, "tune_firth": 0.5, "task_batch": 0}
    learner = make("lp-ft-fb", net="conv4:filters=4", classifier="linear", **options).untrained((16, 16, 3))
    found = learner.fit(Support((2,), images, y, seed=3))
    net, last = copy.deepcopy(learner.backbone), torch.nn.Linear(learner.backbone.width, 2)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(3)
        for parameter in (last.weight, last.bias):
            parameter.copy_((2 * torch.rand(parameter.shape, generator=generator) - 1) / last.in_features**0.5)
    p = torch.softmax(last(net(net.normalise(torch.from_numpy(images)))), -1)
    (-p[torch.arange(6), torch.as_tensor(y)].log().mean() - 0.5 * p.log().mean()).backward()
    for (name, mine), theirs in zip(net.named_parameters(), found.backbone.parameters(), strict=True):
        moved = mine if name.split(".")[2] == "1" else mine - 0.3 * mine.grad  # batch norms stay
        torch.testing.assert_close(theirs.detach(), moved.detach(), atol=1e-4, rtol=1e-4)
    want = last.weight - 0.3 * last.weight.grad
    torch.testing.assert_close(found.last.weight.detach(), want.detach(), atol=1e-5, rtol=1e-4)
    assert found.predict(Query(images)).shape == (6, 2)


def two_views(monkeypatch, first, second):
    given = iter([first, second])
    monkeypatch.setattr("handful.methods.finetuning.contrastive.random_view", lambda x: next(given))


def test_contrastive_tasks_cross_two_views(monkeypatch):
    """Class means of either view classify the queries of either: the mean over the four pairings."""
    method = make("contrastive", net="conv4:filters=4")
    learner = method.untrained((16, 16, 3), 5)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (7, 16, 16, 3), dtype=np.uint8)
    y, labels = np.asarray([0, 1, 0, 1]), np.asarray([1, 0, 0])
    task = SimpleNamespace(support=Support((2,), x[:4], y), query=Query(x[4:]), labels=labels)
    views = torch.rand(2, 7, 3, 16, 16)
    two_views(monkeypatch, *views)
    with torch.no_grad():
        got = float(method.crossed(learner, [task]))
        maps = [learner.backbone.maps(v).mean((2, 3)).double().numpy() for v in views]
    unit = lambda z: z / np.linalg.norm(z, axis=-1, keepdims=True)  # noqa: E731
    losses = []
    for of_support in maps:
        means = np.stack([of_support[:4][y == c].mean(0) for c in range(2)])
        for of_query in maps:
            logits = 10 * unit(of_query[4:]) @ unit(means).T
            losses += list(-np.log(np.exp(logits[np.arange(3), labels]) / np.exp(logits).sum(1)))
    assert got == pytest.approx(np.mean(losses), abs=1e-5)


def test_contrastive_pre_training_adds_its_terms_by_their_weights(monkeypatch):
    method = make("contrastive", net="conv4:filters=4", alone=0.5, local=2.0, by_class=3.0, width=6)
    m = method.untrained((32, 32, 3), 3).modules
    views, labels = torch.rand(2, 4, 3, 32, 32), torch.tensor([0, 1, 0, 2])
    two_views(monkeypatch, *views)
    with torch.no_grad():
        got = float(method.batch_loss(m, torch.zeros(4, 3, 32, 32), labels))
        p = m["projections"]
        maps = m["backbone"].maps(views.flatten(0, 1))
        z, places = p.vector(maps.mean((2, 3))), maps.flatten(2).transpose(1, 2)
        want = F.cross_entropy(m["classifier"](maps.mean((2, 3))), labels.repeat(2))
        want = want + 0.5 * nt_xent(z[:4], z[4:], 0.1) + 3 * supervised(z, labels.repeat(2), 0.1)
        for a, b in ((range(4), range(4, 8)), (range(4, 8), range(4))):
            near, apart = torch.zeros(2, 4, 4)
            for i, u in enumerate(a):
                for j, v in enumerate(b):
                    near[i, j] = F.cosine_similarity(z[u][None], p.place(places[v])).mean()
                    attention = torch.softmax(p.q(places[u]) @ p.k(places[v]).T / 6**0.5, -1)
                    apart[i, j] = F.cosine_similarity(p.v(places[u]), attention @ p.v(places[v])).mean()
            want = want + 2.0 * (info_nce(near, 0.1) + info_nce(apart, 0.1)) / 2
    assert got == pytest.approx(float(want), abs=1e-4)
