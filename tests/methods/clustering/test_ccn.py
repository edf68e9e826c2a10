"""Constrained clustering: the losses by hand, the pair network against its plain form, a small end to end."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import handful as hf
from handful.errors import BadInput, Mismatch
from handful.methods import make
from handful.methods.clustering.pairs import PairNet, kcl, mcl
from handful.metrics.base import mean_interval
from handful.nets import build
from handful.tasks import NWay, Support
from handful.tasks.clustering import Clustering
from learning import decide
from made.patterns import blobs


def test_the_losses_by_hand():
    p = np.array([[0.7, 0.3], [0.6, 0.4], [0.1, 0.9]])
    alike = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=bool)
    kl = np.array([[(a * np.log(a / b)).sum() for b in p] for a in p])
    want = np.where(alike, kl, np.maximum(0, 2 - kl)).mean()
    log_p, pairs = torch.as_tensor(np.log(p)), torch.as_tensor(alike)
    assert float(kcl(log_p, pairs, margin=2.0)) == pytest.approx(want, rel=1e-6)
    same = p @ p.T
    want = -np.where(alike, np.log(same), np.log(1 - same)).mean()
    assert float(mcl(log_p, pairs)) == pytest.approx(want, rel=1e-5)


@pytest.mark.parametrize("loss", [kcl, mcl])
def test_following_the_loss_finds_planted_groups(loss):
    truth = torch.arange(30) % 3
    alike = truth[:, None] == truth[None, :]
    logits = torch.nn.Parameter(0.1 * torch.randn(30, 3, generator=torch.Generator().manual_seed(0)))
    optimiser = torch.optim.Adam([logits], 0.1)
    for _ in range(120):
        optimiser.zero_grad()
        loss(torch.log_softmax(logits, 1), alike).backward()
        optimiser.step()
    found = logits.argmax(1)
    assert all(len(found[truth == c].unique()) == 1 for c in range(3)) and len(found.unique()) == 3


@pytest.mark.parametrize("training", [True, False])
def test_the_pair_network_is_the_plain_one_on_joined_vectors(training):
    torch.manual_seed(0)
    fast, z = PairNet(4, 6), torch.randn(5, 4)
    torch.nn.init.normal_(fast.norm.weight)
    torch.nn.init.normal_(fast.norm.bias)
    plain = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.BatchNorm1d(6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
    for to, of in ((plain[0], fast.first), (plain[1], fast.norm), (plain[3], fast.last)):
        to.load_state_dict(of.state_dict())
    fast.train(training), plain.train(training)
    joined = torch.cat([z[:, None].expand(-1, 5, -1), z[None].expand(5, -1, -1)], 2).flatten(0, 1)
    got = fast(z)
    assert torch.allclose(got, plain(joined).view(5, 5, 2), atol=1e-5)
    assert torch.allclose(fast.norm.running_var, plain[1].running_var, atol=1e-6)
    assert torch.allclose(fast.norm.running_mean, plain[1].running_mean, atol=1e-6)
    fast.eval()
    assert torch.equal(fast.alike(z, rows=2), fast(z).argmax(2).bool())


def test_vggs_has_the_published_shape():
    net = build("vggs", (32, 32, 1))
    assert net.width == 1024
    convolutions = [m for m in net.modules() if isinstance(m, torch.nn.Conv2d)]
    assert [(m.in_channels, m.out_channels) for m in convolutions] == [(1, 64), (64, 128), (128, 256), (256, 256)]


@pytest.fixture(scope="module")
def similar():
    """A trained similarity network, and tasks of classes that it has not seen."""
    c = blobs(n_classes=100, each=24, noise=30.0)
    options = {"net": "conv4:filters=16", "hidden": 2.0, "passes": 60, "decay_at": 40, "crop": False, "rate": 3e-3}
    schedule = {"schedule.steps": 300, "schedule.milestones": (), "schedule.augment": (), "schedule.rate": 3e-3}
    return make("ccn", **options, **schedule).meta_fit(NWay(c.train, 10, 4, 2)), NWay(c.test, 3, 12, 4)


@pytest.mark.learning
def test_it_learns_who_is_alike_among_new_classes(similar):
    """F1 of pairs: an answer of "all alike" has 0.5 among three classes."""
    learner, rule = similar
    score = lambda seed: learner.method.selection_score(learner, rule, hf.Schedule(validate_tasks=1, seed=seed))  # noqa: E731
    decide(mean_interval(np.asarray([score(seed) for seed in range(20)])), above=0.55)


@pytest.mark.slow
@pytest.mark.learning
@pytest.mark.parametrize("loss", ["kcl", "mcl"])
def test_it_clusters_new_classes(similar, loss):
    """Clusters drawn at random agree with three classes of twelve on less than half of the images."""
    learner, rule = similar
    learner.method = learner.method.with_options(loss=loss)
    hidden = Clustering(of=rule)
    decide(hf.evaluate(learner, hidden, n=24).estimate("clustering"), above=0.5)
    task = hidden.read(hidden.draw(0, 0))
    a, b = learner.fit(task.support), learner.fit(task.support)
    np.testing.assert_array_equal(a.predict(task.query), b.predict(task.query))
    assert a.support_scores().shape == (36, 3)


def test_more_outputs_than_classes_answer_with_the_fullest(patches):
    method = make("ccn", net="conv4:filters=4", hidden=0.5, passes=1, clusters=7)
    learner = method.untrained(patches.card.shape)
    task = Clustering(of=NWay(patches.test, 3, 4, 2)).read(Clustering(of=NWay(patches.test, 3, 4, 2)).draw(0, 0))
    assert learner.fit(task.support).predict(task.query).shape == (6, 3)


def test_wrong_input_is_refused(patches):
    with pytest.raises(BadInput):
        make("ccn", passes=0)
    learner = make("ccn", net="conv4:filters=4", hidden=0.5, passes=1).untrained(patches.card.shape)
    with pytest.raises(Mismatch):
        learner.fit(Support((2,), np.zeros((4, 8, 8, 3), dtype=np.uint8)))
    with pytest.raises(Mismatch):
        learner.fit(Support((2,)))
