"""Sinkhorn's algorithm against POT, and what must hold of any transport plan."""

from __future__ import annotations

import numpy as np
import ot
import pytest
import torch

from handful.errors import BadInput
from handful.methods.clustering.sinkhorn import sinkhorn


def problems(t: int = 6, n: int = 12, k: int = 4, d: int = 3, seed: int = 0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    x, c = torch.randn(t, n, d, generator=g, dtype=dtype), torch.randn(t, k, d, generator=g, dtype=dtype)
    return torch.cdist(x, c) ** 2


@pytest.mark.parametrize("gamma", [0.5, 1.0, 30.0])
def test_equals_pot_on_the_same_cost(gamma):
    cost = problems()
    plan = sinkhorn(cost, gamma, iterations=20_000, tolerance=1e-11).plan
    for t in range(len(cost)):
        m = cost[t].numpy()
        want = ot.sinkhorn(
            np.full(12, 1 / 12), np.full(4, 1 / 4), m, gamma, method="sinkhorn_log", stopThr=1e-12, numItermax=20_000
        )
        assert np.abs(plan[t].numpy() - want).max() < 1e-6


def test_equals_pot_with_unequal_weights():
    cost, rng = problems(), np.random.default_rng(0)
    a, b = rng.dirichlet(np.ones(12), 6), rng.dirichlet(np.ones(4), 6)
    plan = sinkhorn(cost, 0.5, torch.as_tensor(a), torch.as_tensor(b), iterations=20_000, tolerance=1e-11).plan
    for t in range(6):
        want = ot.sinkhorn(a[t], b[t], cost[t].numpy(), 0.5, method="sinkhorn_log", stopThr=1e-12, numItermax=20_000)
        assert np.abs(plan[t].numpy() - want).max() < 1e-6


def test_marginals_hold_and_the_error_that_is_returned_is_theirs():
    cost = problems()
    few = sinkhorn(cost, 0.3, iterations=2)
    p = few.plan
    assert torch.allclose(p.sum(1), torch.full((6, 4), 0.25, dtype=p.dtype))
    assert torch.allclose((p.sum(2) - 1 / 12).abs().sum(1), few.error)
    assert few.error.max() > 1e-3 and not few.converged.all()
    done = sinkhorn(cost, 0.3, iterations=10_000, tolerance=1e-9)
    assert done.converged.all() and done.error.max() <= 1e-9
    assert torch.allclose(done.plan.sum(2), torch.full((6, 12), 1 / 12, dtype=p.dtype), atol=1e-9)


def test_warm_start_takes_fewer_iterations_to_the_same_plan():
    cost = problems()
    cold = sinkhorn(cost, 0.2, iterations=10_000, tolerance=1e-9)
    warm = sinkhorn(cost + 1e-3, 0.2, iterations=10_000, tolerance=1e-9, start=cold.v)
    assert warm.iterations.sum() < cold.iterations.sum()
    assert torch.allclose(warm.plan, cold.plan, atol=1e-7)


def test_plans_that_are_off_are_carried_on_and_the_others_left_alone():
    cost = problems() * torch.tensor([1e-2, 1e-2, 1e-2, 1e3, 1e4, 1e4], dtype=torch.float64)[:, None, None]
    few, more = sinkhorn(cost, 1.0, iterations=4), sinkhorn(cost, 1.0, iterations=4, carry_on=0.05)
    assert torch.equal(few.plan[:3], more.plan[:3]) and (more.iterations[:3] == 4).all()
    assert (few.error[3:] > 0.05).all() and (more.error <= 0.05).all()
    alone = sinkhorn(cost[4:5], 1.0, iterations=4, carry_on=0.05)
    assert torch.allclose(alone.plan[0], more.plan[4], atol=1e-12)


def test_the_duals_give_the_plan():
    cost = problems()
    p = sinkhorn(cost, 0.7, iterations=30)
    assert torch.allclose(p.log, p.u[..., None] - cost / 0.7 + p.v[:, None, :], atol=1e-9)


def test_permuted_points_permute_the_plan():
    cost, order = problems(), torch.randperm(12, generator=torch.Generator().manual_seed(1))
    a, b = sinkhorn(cost, 1.0, iterations=50), sinkhorn(cost[:, order], 1.0, iterations=50)
    assert torch.allclose(a.log[:, order], b.log, atol=1e-10)


def test_a_problem_in_a_padded_batch_is_the_problem_alone():
    small, large = problems(1, 7, 3), problems(1, 12, 5, seed=1)
    cost = torch.zeros(2, 12, 5, dtype=torch.float64)
    cost[0, :7, :3], cost[1] = small[0], large[0]
    rows, columns = torch.ones(2, 12, dtype=torch.float64), torch.ones(2, 5, dtype=torch.float64)
    rows[0, 7:], columns[0, 3:] = 0, 0
    for options in ({"iterations": 9}, {"iterations": 5000, "tolerance": 1e-8}):
        batch = sinkhorn(cost, 0.4, rows, columns, **options)
        assert torch.allclose(batch.plan[0, :7, :3], sinkhorn(small, 0.4, **options).plan[0], atol=1e-12)
        assert torch.allclose(batch.plan[1], sinkhorn(large, 0.4, **options).plan[0], atol=1e-12)
        assert batch.plan[0, 7:].sum() == 0 and batch.plan[0, :, 3:].sum() == 0
        assert not batch.plan.isnan().any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gamma", [1e-3, 1e-2, 1.0, 1e2, 1e3])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e2])
def test_no_nan_from_tiny_to_huge_gamma(dtype, gamma, scale):
    plan = sinkhorn(problems(dtype=dtype) * scale, gamma, iterations=200)
    assert plan.plan.isfinite().all() and plan.error.isfinite().all()
    assert plan.plan.dtype == dtype
    assert torch.allclose(plan.plan.sum(1), torch.full((6, 4), 0.25, dtype=dtype), atol=1e-3)


def test_float32_agrees_with_float64():
    a = sinkhorn(problems(), 1.0, iterations=100).plan
    b = sinkhorn(problems().float(), 1.0, iterations=100).plan
    assert (a - b).abs().max() < 1e-5


def test_gradients_pass_through_padding_without_nan():
    cost = problems(2, 6, 3).requires_grad_()
    rows = torch.ones(2, 6, dtype=torch.float64)
    rows[1, 4:] = 0
    plan = sinkhorn(cost, 1.0, rows, iterations=10)
    plan.log[:, :4].sum().backward()
    assert cost.grad is not None and cost.grad.isfinite().all()


@pytest.mark.parametrize(
    "call",
    [
        lambda c: sinkhorn(c, 0.0),
        lambda c: sinkhorn(c, float("nan")),
        lambda c: sinkhorn(c[0], 1.0),
        lambda c: sinkhorn(c, 1.0, torch.ones(6, 3)),
        lambda c: sinkhorn(c, 1.0, torch.zeros(6, 12)),
        lambda c: sinkhorn(c, 1.0, -torch.ones(6, 12)),
    ],
)
def test_wrong_input_is_refused(call):
    with pytest.raises(BadInput):
        call(problems())
