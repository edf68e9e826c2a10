"""CDKT: the mean-field steps against their textbook form, the bound they must raise, and the answers by sampling."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.special import digamma, expit

from handful.errors import BadInput
from handful.methods.batch import pad
from handful.methods.contract import make
from handful.methods.gradient.cdkt import mean_field


def problem(n: int = 12, ways: int = 3, seed: int = 0):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % ways
    x = rng.normal(size=(ways, 6))[labels] + 0.5 * rng.normal(size=(n, 6))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return 2.0 * x @ x.T + 1e-3 * np.eye(n), np.eye(ways)[labels]


def field(kernel, hot, temperature, steps):
    there, classes = torch.ones(1, len(kernel), dtype=torch.bool), torch.ones(1, hot.shape[1], dtype=torch.bool)
    return mean_field(torch.tensor(kernel)[None], torch.tensor(hot)[None], there, classes, temperature, steps)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_steps_are_the_papers_with_plain_inverses(temperature):
    kernel, hot = problem()
    n, ways = hot.shape
    mu, second, alpha = np.zeros((ways, n)), np.tile(np.diag(kernel), (ways, 1)), np.full(n, 1.0 + ways)
    for _ in range(5):
        tilde = np.sqrt(second) / temperature
        gamma = np.exp(digamma(alpha) - mu / (2 * temperature)) / (2 * ways * np.cosh(tilde / 2))
        alpha = 1 + gamma.sum(0)
        omega = (hot.T + gamma) * np.tanh(tilde / 2) / (2 * tilde)
        for c in range(ways):
            sigma = np.linalg.inv(np.linalg.inv(kernel) + np.diag(omega[c] / temperature**2))
            mu[c] = sigma @ (hot.T[c] - gamma[c]) / (2 * temperature)
            second[c] = mu[c] ** 2 + np.diag(sigma)
    found = field(kernel, hot, temperature, 5)
    np.testing.assert_allclose(found.weights[0].numpy(), np.linalg.solve(kernel, mu.T).T, atol=1e-6)


@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_every_step_raises_the_bound_and_the_bound_lies_below_the_evidence(temperature):
    kernel, hot = problem(6, 2)
    bounds = [float(b) for b in field(kernel, hot, temperature, 40).bounds]
    assert all(b >= a - 1e-9 for a, b in pairwise(bounds))
    rng = np.random.default_rng(0)
    draws = np.linalg.cholesky(kernel) @ rng.normal(size=(200_000, 2, 6, 1))
    s = expit(draws[..., 0] / temperature)
    likelihood = np.prod((s * hot.T).sum(1) / s.sum(1), axis=1)
    assert bounds[-1] < np.log(likelihood.mean()) < bounds[-1] + 6, "a bound, within a nat a point"


def test_answers_are_the_mean_likelihood_over_the_posterior():
    rng = np.random.default_rng(1)
    y = np.asarray([0, 1, 2, 0, 1, 2])
    s = (rng.normal(size=(3, 5))[y] + 0.3 * rng.normal(size=(6, 5))).astype(np.float32)
    q = rng.normal(size=(4, 5)).astype(np.float32)
    method = make("cdkt+ml", net="pixels", scale=1.5, temperature=0.5, samples=4000)
    b = pad([(torch.tensor(s), y, torch.tensor(q))], [(3,)], [7])
    with torch.no_grad():
        ours = method.head(method.modules((5,), 2).eval(), b)[0].exp().numpy()
    s, q = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (s.astype(float), q.astype(float)))
    kernel = 1.5 * s @ s.T + 1e-9 * np.eye(6)
    found = field(kernel, np.eye(3)[y], 0.5, 30)
    across = 1.5 * q @ s.T
    for i in range(4):
        total = np.zeros(3)
        f = []
        for c in range(3):
            d = found.root[0, c].numpy() ** 2
            variance = 1.5 - across[i] @ np.linalg.inv(kernel + np.diag(1 / d)) @ across[i]
            mean = across[i] @ found.weights[0, c].numpy()
            f.append(mean + np.sqrt(variance) * np.random.default_rng(c).normal(size=200_000))
        p = expit(np.stack(f) / 0.5)
        total = (p / p.sum(0)).mean(1)
        np.testing.assert_allclose(ours[i], total, atol=0.02)


def test_padded_is_as_alone():
    rng = np.random.default_rng(0)
    given = []
    for ways, shots in ((3, 2), (5, 1), (2, 4)):
        y = np.repeat(np.arange(ways), shots)
        s, q = (torch.tensor(rng.normal(size=(n, 6)), dtype=torch.float32) for n in (len(y), 7))
        given.append((s, y, q))
    method = make("cdkt+pl", net="pixels")
    m = method.modules((6,), 2).eval()
    with torch.no_grad():
        together = method.head(m, pad(given, [(3,), (5,), (2,)], [1, 2, 3]))
        for i, (task, ways) in enumerate(zip(given, (3, 5, 2), strict=True)):
            alone = method.head(m, pad([task], [(ways,)], [i + 1]))[0]
            np.testing.assert_allclose(together[i, :, :ways].numpy(), alone.numpy(), atol=1e-4)
            assert torch.isinf(together[i, :, ways:]).all()
    with pytest.raises(BadInput, match="above 0"):
        make("cdkt+ml", temperature=0.0)
