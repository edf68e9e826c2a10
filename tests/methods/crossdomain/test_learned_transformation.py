"""Learned feature-wise transformation and the explanation of TPN: gradients against finite differences."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from handful.errors import BadInput
from handful.methods.batch import pad
from handful.methods.crossdomain.lft import GNNLFT, TPNLFT, Loss, RelationNetLFT, domain_rules
from handful.methods.crossdomain.lrp import TPNLRP
from handful.methods.layers.masks import asked
from handful.methods.layers.relevance import log_odds
from handful.methods.metric.tpn import TPN
from handful.methods.schedule import Schedule
from handful.tasks.nway import NWay
from made.zoo import WORLD, batch_of, padded_is_alone, random_task

SMALL = {"net": "conv4:filters=8"}
TRAIN = NWay(WORLD.train, 3, 1, 3)


def in_double(learner, tasks, kinds, generator):
    """The loss of one task as training computes it, in double precision throughout."""
    (task,) = tasks
    images = torch.from_numpy(np.concatenate([task.support.images, task.query.images]))
    features = learner.backbone.maps(learner.backbone.normalise(images))
    n = len(task.support)
    batch = pad([(features[:n], task.support.labels, features[n:])], [task.support.shape], [0])
    return learner.method.task_loss(learner.modules, batch, torch.as_tensor(task.labels)[None])


def ready(method):
    learner = method.untrained(TRAIN.image_shape, TRAIN.n_classes)
    seen, unseen = (rule.read(rule.draw(0, 0)) for rule in domain_rules(TRAIN, "context", method.name)[:2])
    learner.modules.train()
    return learner, Loss(method, learner), [seen], [unseen]


def backward(method, of, seen, unseen):
    torch.manual_seed(3)
    value = method.two_losses(of, seen, unseen, torch.Generator().manual_seed(0))
    of.zero_grad()
    value.backward()
    return value


def test_the_model_follows_the_seen_tasks_alone():
    method = RelationNetLFT(**SMALL, inner_rate=0.5, auxiliary=0)
    _, of, seen, unseen = ready(method)
    value = backward(method, of, seen, unseen)
    found = {k: p.grad.clone() for k, p in of.named_parameters() if ".transformation." not in k}
    _, of, seen, _ = ready(method)
    torch.manual_seed(3)
    plain = of(seen, torch.Generator().manual_seed(0))
    plain.backward()
    torch.testing.assert_close(value.detach(), plain.detach())
    for name, parameter in of.named_parameters():
        if ".transformation." not in name:
            torch.testing.assert_close(found[name], parameter.grad, atol=1e-6, rtol=1e-4, msg=name)


def test_the_strengths_follow_the_unseen_tasks_after_the_models_step(monkeypatch):
    """Along a direction of θ, the slope is the finite difference of L_unseen(w - α ∇L_seen(w, θ))."""
    monkeypatch.setattr("handful.methods.crossdomain.lft.task_batch_loss", in_double)
    method = RelationNetLFT(**SMALL, inner_rate=0.1)
    learner, of, seen, unseen = ready(method)
    learner.modules.double()
    for layer in learner.modules.modules():  # the statistics that θ moves carry no gradient; hold them
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = 0.0
    norms = {k: v.clone() for k, v in learner.modules.state_dict().items()}
    backward(method, of, seen, unseen)
    theta = [s.gamma for s in learner.modules["transformation"]]
    slope = sum(float(p.grad.sum()) for p in theta)

    def unseen_loss(shift):
        learner.modules.load_state_dict(norms)
        with torch.no_grad():
            for p in theta:
                p.add_(shift)
        torch.manual_seed(3)
        generator = torch.Generator().manual_seed(0)
        names = [(k, p) for k, p in of.named_parameters() if ".transformation." not in k]
        grads = torch.autograd.grad(of(seen, generator), [p for _, p in names], allow_unused=True)
        with torch.no_grad():
            for (_, p), g in zip(names, grads, strict=True):
                if g is not None:
                    p.sub_(0.1 * g)
            learner.modules.eval()
            value = float(of(unseen, generator))
        learner.modules.train()
        return value

    numeric = (unseen_loss(1e-6) - unseen_loss(-1e-6)) / 2e-6
    assert slope == pytest.approx(numeric, rel=1e-3) and abs(slope) > 1e-5


def test_a_model_that_does_not_move_teaches_the_strengths_nothing():
    method = RelationNetLFT(**SMALL, inner_rate=0.0)
    learner, of, seen, unseen = ready(method)
    backward(method, of, seen, unseen)
    assert all(p.grad is None or float(p.grad.abs().max()) == 0 for p in learner.modules["transformation"].parameters())


def test_strengths_start_as_published_are_learned_and_do_nothing_at_test():
    method = GNNLFT(**SMALL, ways=3, width=16, hidden=16, schedule=Schedule(steps=4, tasks=1))
    learner = method.meta_fit(TRAIN)
    (first, *_) = learner.modules["transformation"]
    assert first.gamma.shape == (1, 8, 1, 1)
    assert not torch.allclose(first.gamma, torch.tensor(0.3)) and not torch.allclose(first.beta, torch.tensor(0.5))
    x = torch.rand(2, 3, 32, 32)
    before = learner.backbone(x)
    with torch.no_grad():
        first.gamma.fill_(5.0)
    torch.testing.assert_close(learner.backbone(x), before)


def test_an_auxiliary_classifier_steadies_the_features_less_and_less(monkeypatch):
    """It is asked in evaluation mode; where tasks have nothing to say, training goes down its loss."""
    method = RelationNetLFT(net="conv4:filters=32", schedule=Schedule(steps=100, tasks=1, rate=3e-3))
    assert [method.auxiliary_weight(i) for i in (0, 4, 5, 99)] == pytest.approx([1, 1, 0.9, 0.9**19])
    assert "auxiliary" not in RelationNetLFT(**SMALL, auxiliary=0).untrained(TRAIN.image_shape).modules

    learner = method.untrained(TRAIN.image_shape, TRAIN.n_classes)
    m = learner.modules.train()
    norm = m["backbone"].blocks[0][1].running_mean.clone()
    method.auxiliary_loss(learner, TRAIN, 0, torch.Generator().manual_seed(0)).backward()
    assert m.training and torch.equal(m["backbone"].blocks[0][1].running_mean, norm)
    assert m["backbone"].blocks[0][0].weight.grad.abs().max() > 0
    assert all(p.grad is None for p in m["transformation"].parameters())

    def loss(learner):
        with torch.no_grad():
            generator = torch.Generator().manual_seed(0)
            return np.mean([float(method.auxiliary_loss(learner, TRAIN, i, generator)) for i in range(8)])

    monkeypatch.setattr(RelationNetLFT, "two_losses", lambda self, of, seen, unseen, g: 0 * of(seen, g))
    assert loss(method.meta_fit(TRAIN)) < loss(learner) - 1


def test_a_folder_without_what_only_trains_still_opens():
    method = RelationNetLFT(net="resnet10")
    learner = method.untrained((32, 32, 3), 5)
    old = {k: v for k, v in learner.state().items() if not k.startswith(("auxiliary.", "transformation.6."))}
    again = method.load(old, learner.facts(), learner.compute, "here")
    x = torch.rand(2, 3, 32, 32)
    torch.testing.assert_close(again.backbone(x), learner.backbone(x))


def test_domains_are_data_sets_or_contexts_and_one_is_too_few():
    assert len(domain_rules(TRAIN, "", "x")) == 2, "blobs come from two data sets"
    assert len(domain_rules(TRAIN, "context", "x")) == 3
    with pytest.raises(BadInput, match="at least two training domains"):
        domain_rules(NWay(WORLD.train, 3, 1, 3), "kind", "x")
    with pytest.raises(BadInput, match="no column"):
        TPNLFT(domain="nothing").meta_fit(TRAIN)
    with pytest.raises(BadInput, match="at least two training domains"):
        TPNLFT().meta_fit(dataclasses.replace(TRAIN, ways=TRAIN.part.n_classes, shots=15))


def test_relevance_for_tpn_is_the_first_order_share_of_the_log_odds():
    """Summed over all features, R is the slope of the log-odds as all features grow together."""
    method = TPNLRP(**SMALL, neighbours=3)
    m = method.untrained((32, 32, 3)).modules.eval()
    with torch.no_grad():  # all length scales 1: an untrained network's cut every edge
        m["scale"].layers[-1].weight.zero_()
        m["scale"].layers[-1].bias.fill_(1.0)
    b = batch_of(random_task(0, (8, 2, 2)), random_task(1, (8, 2, 2), ways=2, shots=1, queries=2))
    b = dataclasses.replace(b, s=b.s.double(), q=b.q.double())
    m.double()
    r_s, r_q = method.explain(m, b)
    with torch.no_grad():
        sigma = method.length_scales(m, b)

        def odds(scale):
            grown = dataclasses.replace(b, s=b.s * scale, q=b.q * scale)
            scores = method.propagated(grown, sigma)[:, b.s.shape[1] :].masked_fill(b.absent[:, None], -1e9)
            told = asked(b)[..., None] & ~b.absent[:, None]
            return float(log_odds(scores).masked_fill(~told, 0).sum())

    slope = (odds(1 + 1e-5) - odds(1 - 1e-5)) / 2e-5
    assert float(r_s.sum() + r_q.sum()) == pytest.approx(slope, rel=1e-4) and abs(slope) > 1e-3
    assert float(r_q[1, 2:].abs().max()) == 0, "padding has no relevance"


def test_without_guidance_tpn_is_trained_as_it_is_and_with_it_otherwise():
    schedule = Schedule(steps=3, tasks=2)
    states = [
        method.with_options(schedule=schedule).meta_fit(TRAIN).state()
        for method in (TPN(**SMALL), TPNLRP(**SMALL, guidance=0.0), TPNLRP(**SMALL))
    ]
    for name, value in states[0].items():
        if "num_batches" not in name and "running" not in name:
            torch.testing.assert_close(states[1][name], value, msg=name)
    weight = "backbone.blocks.0.0.weight"
    assert not torch.allclose(states[2][weight], states[0][weight])
    padded_is_alone(TPNLRP(**SMALL))


def test_the_transformation_draws_with_the_learned_spread():
    method = TPNLFT(net="conv4:filters=256")
    m = method.untrained((32, 32, 3)).modules
    strength = m["transformation"][0]
    with torch.no_grad():
        strength.gamma.fill_(1.0)
        strength.beta.fill_(-50.0)
    norm = m["backbone"].blocks[0][1].train()
    torch.manual_seed(0)
    x = torch.randn(2, 256, 3, 3)
    out, plain = norm(x), F.batch_norm(x, None, None, training=True)
    scale = (out[0] - out[1]).flatten(1)[:, 0] / (plain[0] - plain[1]).flatten(1)[:, 0]
    assert float(scale.detach().std()) == pytest.approx(1.0, rel=0.15)
