"""SYNC's classifiers are the optimum of its objective, whatever the width of its weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import minimize

from handful.methods.zero_shot.data import Candidates, Training
from handful.methods.zero_shot.sync import SYNC

CLASSES, WIDTH, EACH = 20, 40, 15


@pytest.fixture(scope="module")
def data() -> Training:
    """Correlated unit-length features with a common offset, as backbones give them."""
    rng = np.random.default_rng(0)
    s = F.normalize(torch.as_tensor(rng.normal(size=(CLASSES, 12)), dtype=torch.float32), dim=1)
    y = np.repeat(np.arange(CLASSES), EACH)
    mix = rng.normal(size=(WIDTH, WIDTH)) * np.logspace(0, -2, WIDTH)
    x = s.numpy()[y] @ rng.normal(size=(12, WIDTH)) + 0.8 * rng.normal(size=(len(y), WIDTH)) @ mix + 2.0
    return Training(
        F.normalize(torch.as_tensor(x, dtype=torch.float32), dim=1), torch.as_tensor(y), s, None, None
    )  # fmt: skip


def objective(w: np.ndarray, data: Training, lambda_: float) -> tuple[float, np.ndarray]:
    """Every class against all images with the squared hinge, and its gradient."""
    x, signs = data.x.double().numpy(), 2 * np.eye(CLASSES)[data.y.numpy()] - 1
    hinge = np.maximum(0, 1 - signs * (x @ w.T))
    value = (hinge**2).mean(0).sum() + lambda_ / 2 * (w**2).sum()
    return value, -2 * (hinge * signs).T @ x / len(x) + lambda_ * w


def reached(method: SYNC, data: Training) -> float:
    made = method.prepare(method.learn(data), Candidates(data.s, None, torch.arange(len(data.s))))
    return objective(made.double().numpy(), data, method.lambda_)[0]


@pytest.mark.parametrize("lambda_", SYNC.grid["lambda_"])
def test_sync_reaches_the_optimum_at_every_sigma_of_its_grid(data, lambda_: float) -> None:
    def flat(w: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = objective(w.reshape(CLASSES, WIDTH), data, lambda_)
        return value, slope.ravel()

    long = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-14, "gtol": 1e-9}
    best = minimize(flat, np.zeros(CLASSES * WIDTH), jac=True, method="L-BFGS-B", options=long).fun
    for sigma in SYNC.grid["sigma"]:
        assert reached(SYNC(sigma=sigma, lambda_=lambda_), data) == pytest.approx(best, rel=0.01), sigma


def test_classes_with_one_description_share_the_best_classifier_that_both_can_have(data) -> None:
    """With equal descriptions the weights have no inverse: the best shared classifier, not a mean of two."""
    s = data.s.clone()
    s[1] = s[0]
    twins = Training(data.x, data.y, s, None, None)
    method = SYNC(sigma=0.5, lambda_=1e-3)
    w = method.prepare(method.learn(twins), Candidates(s, None, torch.arange(CLASSES))).double().numpy()
    np.testing.assert_allclose(w[0], w[1], rtol=1e-4, atol=1e-4)

    def shared(one: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = objective(np.vstack([one, one, w[2:]]), twins, 1e-3)
        return value, slope[0] + slope[1]

    best = minimize(shared, np.zeros(WIDTH), jac=True, method="L-BFGS-B", options={"maxiter": 5000, "ftol": 1e-13}).fun
    assert objective(w, twins, 1e-3)[0] == pytest.approx(best, rel=1e-3)
