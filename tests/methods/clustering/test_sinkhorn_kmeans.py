"""Sinkhorn K-means and K-means on planted clusters, and the limits that the paper names."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans as Reference

from handful.errors import BadInput
from handful.methods.clustering.kmeans import kmeans
from handful.methods.clustering.sinkhorn_kmeans import sinkhorn_kmeans
from handful.metrics.clustering import clustering_accuracy


def planted(
    t: int = 60, k: int = 5, each: int = 5, d: int = 64, spread: float = 0.9, seed: int = 0, dtype=torch.float32
):
    g = torch.Generator().manual_seed(seed)
    means = torch.randn(t, k, 1, d, generator=g, dtype=torch.float64)
    x = (means + spread * torch.randn(t, k, each, d, generator=g, dtype=torch.float64)).flatten(1, 2)
    return x.to(dtype), np.repeat(np.arange(k), each)


def accuracy(labels: torch.Tensor, truth: np.ndarray) -> float:
    return float(np.mean([clustering_accuracy(truth, row.numpy(), truth.max() + 1) for row in labels]))


def test_planted_clusters_are_found_where_plain_kmeans_finds_fewer():
    x, truth = planted(200)
    found = sinkhorn_kmeans(x, 5, range(200), gamma=10)
    plain = accuracy(kmeans(x, 5, range(200)).labels, truth)
    greedy = accuracy(kmeans(x, 5, range(200), init="greedy").labels, truth)
    many = accuracy(kmeans(x, 5, range(200), starts=10).labels, truth)
    assert accuracy(found.plan.log.argmax(2), truth) > 0.98
    assert accuracy(sinkhorn_kmeans(x, 5, range(200)).plan.log.argmax(2), truth) > 0.96
    assert plain < 0.9 < greedy < many and many > 0.98


def test_the_objective_never_rises_with_a_converged_inner_loop_and_no_noise():
    x, _ = planted(8, d=8, spread=1.5, dtype=torch.float64)
    found = sinkhorn_kmeans(x, 5, range(8), gamma=4.0, noise=0, inner_tolerance=1e-10, steps=30)
    assert found.plan.converged.all()
    rises = found.history.diff(dim=1)
    assert rises.max() < 1e-8
    assert found.history[:, 0].mean() > found.history[:, -1].mean() + 0.1
    assert (found.objective <= found.history[:, -1] + 1e-8).all()


def test_gamma_to_infinity_puts_every_centroid_on_the_mean():
    x, _ = planted(8, dtype=torch.float64)
    found = sinkhorn_kmeans(x, 5, range(8), gamma=1e9, noise=0)
    assert torch.allclose(found.centroids, x.mean(1, keepdim=True).expand(-1, 5, -1), atol=1e-5)


def test_permuted_points_permute_the_clusters():
    x, _ = planted(6, dtype=torch.float64)
    order = torch.randperm(25, generator=torch.Generator().manual_seed(3))
    a, b = sinkhorn_kmeans(x, 5, range(6)), sinkhorn_kmeans(x[:, order], 5, range(6))
    assert torch.allclose(a.centroids, b.centroids, atol=1e-8)
    assert torch.allclose(a.plan.plan[:, order], b.plan.plan, atol=1e-8)
    p, q = kmeans(x, 5, range(6), starts=30), kmeans(x[:, order], 5, range(6), starts=30)
    assert torch.allclose(p.inertia, q.inertia)


def test_a_task_in_a_padded_batch_is_the_task_alone():
    (x, _), (y, _) = planted(1, 3, 4, 6), planted(1, 5, 5, 6, seed=9)
    both = torch.zeros(2, 25, 6)
    both[0, :12], both[1] = x[0], y[0]
    rows = torch.zeros(2, 25)
    rows[0, :12], rows[1] = 1, 1
    counts = torch.tensor([3, 5])
    batch = sinkhorn_kmeans(both, counts, [7, 8], rows=rows)
    assert torch.allclose(batch.centroids[0, :3], sinkhorn_kmeans(x, 3, [7]).centroids[0], atol=1e-4)
    assert torch.allclose(batch.centroids[1], sinkhorn_kmeans(y, 5, [8]).centroids[0], atol=1e-4)
    for init in ("plain", "greedy"):
        batch = kmeans(both, counts, [7, 8], rows=rows, init=init)
        assert torch.allclose(batch.centroids[0, :3], kmeans(x, 3, [7], init=init).centroids[0], atol=1e-4)
        assert torch.allclose(batch.centroids[1], kmeans(y, 5, [8], init=init).centroids[0], atol=1e-4)


def test_large_batches_are_cut_without_changing_a_task(monkeypatch):
    x, _ = planted(10, dtype=torch.float64)
    whole = sinkhorn_kmeans(x, 5, range(10), starts=2)
    monkeypatch.setattr("handful.methods.clustering.sinkhorn_kmeans.LARGEST", 3 * 21 * 5 * 64 * 2)
    cut = sinkhorn_kmeans(x, 5, range(10), starts=2)
    assert torch.allclose(whole.centroids, cut.centroids) and torch.allclose(whole.objective, cut.objective)


def test_known_sizes_are_kept():
    g = torch.Generator().manual_seed(0)
    sizes = [2, 3, 15]
    means = 6 * torch.randn(40, 3, 2, generator=g)
    x = torch.cat([means[:, i : i + 1] + torch.randn(40, s, 2, generator=g) for i, s in enumerate(sizes)], 1)
    truth = np.repeat([0, 1, 2], sizes)
    columns = torch.tensor(sizes).float().expand(40, 3)
    told = sinkhorn_kmeans(x, 3, range(40), columns=columns, starts=4)
    assert torch.allclose(told.plan.plan.sum(1), columns / 20, atol=1e-5)
    equal = sinkhorn_kmeans(x, 3, range(40), starts=4)
    assert accuracy(told.plan.log.argmax(2), truth) > accuracy(equal.plan.log.argmax(2), truth) + 0.15


def test_more_starts_do_not_raise_the_objective():
    x, truth = planted(80)
    one, five = sinkhorn_kmeans(x, 5, range(80), gamma=0.5), sinkhorn_kmeans(x, 5, range(80), gamma=0.5, starts=5)
    assert accuracy(five.plan.log.argmax(2), truth) >= accuracy(one.plan.log.argmax(2), truth)


def test_hard_centroids_are_plain_means_of_their_points():
    x, _ = planted(5, dtype=torch.float64)
    found = sinkhorn_kmeans(x, 5, range(5), gamma=10, hard=True)
    soft = sinkhorn_kmeans(x, 5, range(5), gamma=10)
    near = torch.cdist(x, soft.centroids).argmin(2)
    for t in range(5):
        for j in near[t].unique():
            assert torch.allclose(found.centroids[t, j], x[t][near[t] == j].mean(0))
    assert not torch.allclose(found.centroids, soft.centroids)


def test_tolerance_stops_a_task_that_has_come_to_rest():
    x, _ = planted(5, dtype=torch.float64)
    found = sinkhorn_kmeans(x, 5, range(5), gamma=10, noise=0, tolerance=1e-4, steps=200)
    assert found.converged.all() and found.history.shape == (5, 200)
    further = sinkhorn_kmeans(x, 5, range(5), gamma=10, noise=0, init=found.centroids, steps=50)
    assert (further.centroids - found.centroids).abs().max() < 1e-2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gamma", [1e-3, 1.0, 1e3])
def test_points_that_coincide_and_far_from_the_origin_give_no_nan(dtype, gamma):
    same = torch.ones(3, 10, 4, dtype=dtype) * 1000
    found = sinkhorn_kmeans(same, 3, range(3), gamma=gamma)
    assert found.centroids.isfinite().all() and found.plan.plan.isfinite().all()
    assert (found.centroids - 1000).abs().max() < 0.1
    half = same.clone()
    half[:, 5:] += 50
    found = sinkhorn_kmeans(half, 2, range(3), gamma=gamma)
    assert found.centroids.isfinite().all()
    if gamma <= 1:
        assert (found.plan.log[:, :5].argmax(2) != found.plan.log[:, 5:].argmax(2)).all()
    assert kmeans(same, 3, range(3)).inertia.abs().max() < 1e-3
    assert kmeans(half, 2, range(3)).inertia.abs().max() < 1e-3


def test_float32_finds_what_float64_finds():
    x, _ = planted(30, dtype=torch.float64)
    a, b = sinkhorn_kmeans(x, 5, range(30), gamma=10), sinkhorn_kmeans(x.float(), 5, range(30), gamma=10)
    assert (a.centroids - b.centroids).abs().max() < 1e-2


@pytest.mark.parametrize("init", ["plain", "greedy"])
def test_kmeans_comes_to_rest_where_lloyd_of_scikit_learn_does(init):
    x, _ = planted(10, dtype=torch.float64)
    found = kmeans(x, 5, range(10), init=init)
    assert found.converged.all()
    for t in range(10):
        again = Reference(5, init=found.centroids[t].numpy(), n_init=1).fit(x[t].numpy())
        assert again.inertia_ == pytest.approx(float(found.inertia[t]), rel=1e-9)


def test_starts_are_drawn_by_squared_distance():
    # Points at 0, 1 and 3 on a line: the second centroid after the one at 0 is at 3 with probability 9 / 10.
    x = torch.tensor([0.0, 1.0, 3.0]).double()[None, :, None].expand(4000, -1, -1)
    rows = torch.tensor([1.0, 1.0, 1.0]).double().expand(4000, -1)
    from handful.methods.clustering.kmeans import _plusplus

    generators = [torch.Generator().manual_seed(i) for i in range(4000)]
    c = _plusplus(x, rows, torch.full((4000,), 2), 2, generators, "plain")[..., 0]
    from_zero = c[c[:, 0] == 0]
    assert abs(len(from_zero) / 4000 - 1 / 3) < 0.03
    assert abs((from_zero[:, 1] == 3).double().mean() - 0.9) < 0.03


@pytest.mark.parametrize("call", [sinkhorn_kmeans, kmeans])
def test_wrong_input_is_refused(call):
    x, _ = planted(2)
    for bad in (
        lambda: call(x[0], 5, [0]),
        lambda: call(x, 5, [0]),
        lambda: call(x.int(), 5, [0, 1]),
        lambda: call(x, 5, [0, 1], starts=0),
    ):
        with pytest.raises(BadInput):
            bad()
