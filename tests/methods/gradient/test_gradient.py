"""Methods that learn by gradients, against numpy, finite differences and autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import learning
from handful.methods.contract import make
from handful.methods.layers.support_norm import SupportNorm
from handful.metrics.base import mean_interval
from handful.tasks.episode import Query, Support
from made.zoo import batch_of, random_task


@pytest.mark.parametrize("name", ["maml", "fo-maml", "anil"])
def test_a_task_is_learned_by_steps_down_the_softmax_regression_of_numpy(name):
    """Without a body there is one linear layer, whose gradient is (softmax - one-hot)ᵀ x / n."""
    s, y, q = (np.asarray(x) for x in random_task(0, (5,), ways=3, shots=2))
    learner = make(name, net="pixels", inner_rate=0.3, test_steps=4, ways=3).untrained((5,))
    got = learner.fit(Support((3,), s, y)).predict(Query(q))
    w, c = (p.detach().double().numpy() for p in learner.modules["last"].parameters())
    for _ in range(4):
        e = np.exp(s @ w.T + c)
        wrong = (e / e.sum(1, keepdims=True) - np.eye(3)[y]) / len(y)
        w, c = w - 0.3 * wrong.T @ s, c - 0.3 * wrong.sum(0)
    assert got == pytest.approx(q @ w.T + c, abs=1e-4)


def small(name):
    """A learner in double precision, and a task's tensors."""
    learner = make(name, net="conv4:filters=2", inner_rate=0.05, inner_steps=2, ways=3).untrained((16, 16, 3))
    learner.modules.double().train()
    g = torch.Generator().manual_seed(1)
    x, q = torch.rand(6, 3, 16, 16, generator=g).double(), torch.rand(4, 3, 16, 16, generator=g).double()
    return learner, (x, torch.tensor([0, 1, 2, 0, 1, 2]), q, torch.tensor([2, 0, 1, 1]), 3)


@pytest.mark.parametrize("name", ["maml", "anil", "boil"])
def test_the_outer_gradient_passes_through_the_inner_steps(name):
    """Against central differences of the loss after adaptation, along random directions."""
    learner, task = small(name)
    parameters = list(learner.modules.parameters())
    grads = torch.autograd.grad(learner.task_loss(*task), parameters)
    g = torch.Generator().manual_seed(2)
    for _ in range(3):
        along = [torch.randn(p.shape, generator=g).double() for p in parameters]
        losses = []
        for step in (1e-8, -1e-8):
            with torch.no_grad():
                for p, v in zip(parameters, along, strict=True):
                    p.add_(step * v)
            losses.append(float(learner.task_loss(*task).detach()))
            with torch.no_grad():
                for p, v in zip(parameters, along, strict=True):
                    p.sub_(step * v)
        slope = sum(float((a * v).sum()) for a, v in zip(grads, along, strict=True))
        assert slope == pytest.approx((losses[0] - losses[1]) / 2e-8, rel=1e-4, abs=1e-5)


def test_the_fused_norm_has_the_gradients_of_the_one_written_out():
    torch.manual_seed(0)
    norm = SupportNorm(nn.BatchNorm2d(4).double())
    norm.weight.data.uniform_(0.5, 2)
    x = torch.randn(7, 4, 3, 5, dtype=torch.double, requires_grad=True)
    norm.first = 3
    variance, mean = torch.var_mean(x[:3], (0, 2, 3), correction=0, keepdim=True)
    written = (x - mean) * torch.rsqrt(variance + norm.eps) * norm.weight.view(1, -1, 1, 1) + norm.bias.view(
        1, -1, 1, 1
    )
    assert torch.allclose(norm(x), written)
    g = torch.randn_like(written)
    for fused, plain in zip(
        *(torch.autograd.grad(y, (x, norm.weight, norm.bias), g) for y in (norm(x), written)), strict=True
    ):
        assert torch.allclose(fused, plain)


def test_fo_mamls_gradient_is_that_at_the_adapted_weights():
    learner, task = small("fo-maml")
    x, y, q, qy, ways = task
    got = torch.autograd.grad(learner.task_loss(*task), list(learner.modules.parameters()))
    params = {k: v.detach().requires_grad_() for k, v in learner.initial(ways).items()}
    for _ in range(2):
        grads = torch.autograd.grad(F.cross_entropy(learner.logits(params, x), y), list(params.values()))
        params = {k: (v - 0.05 * g).detach().requires_grad_() for (k, v), g in zip(params.items(), grads, strict=True)}
    want = torch.autograd.grad(F.cross_entropy(learner.query_logits(params, x, q), qy), list(params.values()))
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)


def test_sib_refines_its_weights_by_the_synthetic_gradient():
    method = make("sib", net="pixels", refine=3, rate=0.05)
    m = method.modules((6,), 2)
    net = m["synthetic"]
    with torch.no_grad():
        net.diagonal.uniform_(0.5, 1.5)
        net.bias.fill_(0.2)
    s, y, q = random_task(0, (6,), ways=3, shots=2)
    x = F.normalize(q, dim=-1)
    unit = F.normalize(s, dim=-1)
    theta = net.diagonal.detach() * torch.stack([unit[torch.as_tensor(y == c)].mean(0) for c in range(3)])
    start = theta.clone()
    for _ in range(3):
        theta = theta.detach().requires_grad_()
        scores = net.scale * (x @ F.normalize(theta, dim=-1).T + 0.2)
        p = torch.softmax(scores, -1)
        facts = [scores - scores.mean(1, keepdim=True), scores - scores.amax(1, keepdim=True), p]
        facts += [(p**2).sum(1, keepdim=True).expand_as(p), 3 * p.mean(0).expand_as(p), facts[0].mean(0).expand_as(p)]
        slope = net.slope(torch.stack(facts, -1))[..., 0]
        theta = theta - 0.05 * torch.autograd.grad(scores, theta, slope)[0]
    assert float((theta - start).detach().norm()) > 0.01
    want = net.scale * (x @ F.normalize(theta, dim=-1).T + 0.2)
    torch.testing.assert_close(method.head(m, batch_of((s, y, q)))[0], want, atol=1e-4, rtol=1e-4)


def biased(seed, n, ways=5, queries=15, width=16):
    """Tasks of features: classes are directions, each of one shot, beside a direction that all images of the task share.

    A shot with much of it is near to every query, so its class draws the others' queries: that shows in what the class
    gets in the whole task, hardly in any one query's scores.
    """
    g = torch.Generator().manual_seed(seed)
    y = torch.arange(ways).repeat_interleave(queries)
    centres, shared = (F.normalize(torch.randn(n, k, width, generator=g), dim=-1) for k in (ways, 1))

    def seen(about):
        amount = 2 + 0.5 * torch.randn(*about.shape[:2], 1, generator=g)
        return about + amount * shared + 0.2 * torch.randn(about.shape, generator=g)

    s, q = seen(centres), seen(centres[:, y])
    return batch_of(*((s[i], np.arange(ways), q[i]) for i in range(n))), y.expand(n, -1)


@pytest.mark.learning
def test_what_sib_learns_from_the_tasks_other_queries_makes_it_better():
    """Three steps against none, trained alike, paired on 150 tasks of other classes; told one query at a time ξ gains 7."""
    right = {}
    test, y = biased(100_000 + learning.SEED, 150)
    for refine in (0, 3):
        method = make("sib", net="pixels", refine=refine)
        m = method.modules((16,), 2)
        adam = torch.optim.Adam(m["synthetic"].parameters(), 5e-3)
        for step in range(150):
            adam.zero_grad()
            method.task_loss(m, *biased(1000 * learning.SEED + step, 8)).backward()
            adam.step()
        with torch.no_grad():
            right[refine] = 100 * (method.head(m, test).argmax(-1) == y).double().mean(1).numpy()
    learning.decide(mean_interval(right[3] - right[0]), above=10)


def test_a_sib_of_earlier_versions_answers_as_it_did():
    """Its network read four facts; the two later ones have no weight in it."""
    method = make("sib", net="pixels")
    learner = method.untrained((6,))
    old = learner.state()
    old["synthetic.slope.0.weight"] = old["synthetic.slope.0.weight"][:, :4]
    again = method.load(old, learner.facts(), learner.compute, "here").modules["synthetic"]
    g = torch.Generator().manual_seed(0)
    scores, absent, there = torch.randn(1, 7, 3, generator=g), torch.zeros(1, 3, dtype=torch.bool), torch.ones(1, 7)
    alone = torch.cat([again.gradient(scores[:, i : i + 1], absent, there[:, :1]) for i in range(7)], 1)
    torch.testing.assert_close(again.gradient(scores, absent, there), alone)
    assert alone.abs().max() > 0


def test_versa_starts_with_less_noise_than_signal():
    """With noise as long as the features, the means would not be seen for thousands of steps."""
    s, y, q = random_task(0, (64,), ways=5, shots=5)
    learn = make("versa", net="pixels", samples=1)
    m = learn.modules((64,), 2)
    b = batch_of((3 * s, y, 3 * q))
    with torch.no_grad():
        answers = []
        for seed in range(20):
            b.seeds = [seed]
            answers.append(learn.head(m, b)[0].softmax(-1))
    assert float(torch.stack(answers).std(0).max()) < 0.05
