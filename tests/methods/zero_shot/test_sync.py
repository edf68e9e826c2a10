"""SYNC's classifiers are the optimum of its objective, whatever the width of its weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import minimize

from handful.methods.zero_shot.data import Candidates, Training
from handful.methods.zero_shot.sync import SYNC, crammer_singer

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


def test_losses_of_pairs_of_classes_are_those_of_the_authors_code() -> None:
    """compute_fg_W of train_W_struct.m and train_W_CS.m (pujols/Zero-shot-learning-journal,
    11b9913, SynC/codes), their lines run in NumPy outside on these numbers; distances as in SynC_fast.m's Sig_dist_comp."""
    x = [[1.76, 0.4, 0.98], [2.24, 1.87, -0.98], [0.95, -0.15, -0.1], [0.41, 0.14, 1.45], [0.76, 0.12, 0.44], [0.33, 1.49, -0.21]]  # fmt: skip
    w = [[0.31, -0.85, -2.55], [0.65, 0.86, -0.74], [2.27, -1.45, 0.05], [-0.19, 1.53, 1.47]]
    s = [[0.639707, 0.462767, 0.244994, 0.299438, 0.476378], [0.061161, 0.682963, 0.682963, 0.214063, 0.132515],
         [0.243249, 0.273655, 0.433288, 0.334468, 0.752553], [0.133073, 0.279454, 0.212917, 0.864977, 0.332683]]  # fmt: skip
    x, w, s = (torch.tensor(v, dtype=torch.float64) for v in (x, w, s))
    y = torch.tensor([0, 1, 2, 3, 1, 0])
    penalty = 0.1 / 2 * float(w.square().sum())
    ones = torch.ones(4, 4, dtype=torch.float64)
    assert float(crammer_singer(w, x, y, ones)) + penalty == pytest.approx(3.1406967, abs=1e-6)
    assert float(crammer_singer(w, x, y, torch.cdist(s, s))) + penalty == pytest.approx(3.0009548, abs=1e-5)
