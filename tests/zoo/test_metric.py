"""Metric methods against references computed another way."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from handful.errors import BadInput
from handful.methods.contract import make
from handful.methods.metric.can import CAN, Fusion
from handful.methods.metric.covamnet import CovaMNet
from handful.methods.metric.deepbdc import DeepBDC, STLDeepBDC, bdc_matrix
from handful.methods.metric.dn4 import DN4
from handful.methods.metric.gnn import GNN
from handful.methods.metric.tpn import TPN
from handful.methods.pieces.graph import Edges, GraphConvolution, nearest_edges, propagate
from handful.methods.pieces.local import by_class

from .helpers import batch_of, padded_is_alone, random_task

ALL = [DN4(), CovaMNet(), TPN(), GNN(), CAN(), DeepBDC(), DeepBDC(reduce=16), STLDeepBDC(net="conv4:filters=16")]


@pytest.mark.parametrize("method", ALL, ids=lambda m: f"{m.name}-{getattr(m, 'reduce', '')}")
def test_padding_changes_no_answer(method):
    padded_is_alone(method)


def test_by_class_keeps_every_labelled_image_once():
    b = batch_of(random_task(0, (2,), labels=[0, 1, 1, 2, 2, 2]), random_task(1, (2,), ways=2, shots=1))
    shown, mask = by_class(b, b.s)
    assert shown.shape == (2, 3, 3, 2) and mask.sum((1, 2)).tolist() == [6, 2]
    for c in range(3):
        torch.testing.assert_close(shown[0, c][mask[0, c]], b.s[0][b.y[0] == c])
    assert (shown[~mask] == 0).all()


def test_dn4_is_the_sum_of_nearest_descriptors():
    s, y, q = random_task(0, (6, 2, 3), ways=3, shots=2)
    got = DN4(neighbours=3).head(torch.nn.ModuleDict(), batch_of((s, y, q)))[0].numpy()
    unit = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)  # noqa: E731
    for i, image in enumerate(q.numpy()):
        for c in range(3):
            pool = unit(np.concatenate([d.reshape(6, -1).T for d in s.numpy()[y == c]]))
            near = np.sort(unit(image.reshape(6, -1).T) @ pool.T, 1)[:, -3:]
            assert got[i, c] == pytest.approx(near.sum(), abs=1e-5)


def test_dn4_with_one_place_one_shot_one_neighbour_is_cosine_nearest_neighbour():
    s, y, q = random_task(1, (8, 1, 1), ways=5, shots=1, queries=20)
    got = DN4(neighbours=1).head(torch.nn.ModuleDict(), batch_of((s, y, q)))[0]
    cos = F.cosine_similarity(q[:, None, :, 0, 0], s[None, :, :, 0, 0], -1)
    assert (got.argmax(1).numpy() == y[cos.argmax(1).numpy()]).all()


def test_covamnet_measures_are_quadratic_forms_of_numpys_covariance():
    s, y, q = random_task(2, (4, 3, 3), ways=3, shots=2)
    got = CovaMNet().measures(batch_of((s, y, q)))[0].numpy()
    for i, image in enumerate(q.numpy().reshape(len(q), 4, -1)):
        x = image - image.mean(1, keepdims=True)
        for c in range(3):
            covariance = np.cov(np.concatenate(list(s.numpy()[y == c].reshape(-1, 4, 9)), axis=1))
            assert got[i, c] == pytest.approx(np.diag(x.T @ covariance @ x), abs=1e-4)


def test_bdc_matrix_is_the_distance_covariance_of_szekely():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 7)), rng.normal(size=(5, 7))

    def centred(z):
        a = np.array([[np.sqrt(np.linalg.norm(u - v) ** 2 + 1e-5) for u in z] for v in z])
        n = len(z)
        h = np.eye(n) - np.ones((n, n)) / n
        return h @ a @ h

    got = [bdc_matrix(torch.tensor(z)).numpy() for z in (x, y)]
    assert got[0] == pytest.approx(centred(x), abs=1e-6)
    assert (got[0] * got[1]).sum() == pytest.approx(np.trace(centred(x).T @ centred(y)), rel=1e-6)
    assert got[0].sum(0) == pytest.approx(np.zeros(5), abs=1e-6)


def test_deepbdc_takes_the_inner_product_at_one_shot_and_the_distance_above():
    method = DeepBDC(net="conv4:filters=4")
    m = method.untrained((32, 32, 3)).modules
    for shots, same in ((1, "inner"), (3, "distance")):
        b = batch_of(random_task(3, (4, 2, 2), shots=shots))
        with torch.no_grad():
            torch.testing.assert_close(method.head(m, b), method.with_options(score=same).head(m, b))


def test_label_propagation_is_the_limit_of_its_iteration():
    rng = np.random.default_rng(1)
    w = rng.random((6, 6))
    w = w + w.T
    y = np.eye(6)[:, :2]
    d = w.sum(1)
    s = w / np.sqrt(d[:, None] * d[None])
    f = np.zeros_like(y)
    for _ in range(2000):
        f = 0.9 * s @ f + y
    got = propagate(torch.tensor(w), torch.tensor(y), 0.9).numpy()
    assert got == pytest.approx(f, abs=1e-6)


def test_nearest_edges_keep_what_either_end_wants():
    w = torch.tensor([[9.0, 3.0, 1.0], [3.0, 9.0, 2.0], [1.0, 2.0, 9.0]])
    assert nearest_edges(w, 2).tolist() == [[9, 3, 0], [3, 9, 2], [0, 2, 9]]


def test_tpn_is_numpys_closed_form():
    method = TPN(net="conv4:filters=4", neighbours=4)
    m = method.untrained((32, 32, 3)).modules
    s, y, q = random_task(4, (4, 2, 2), ways=2, shots=2, queries=3)
    with torch.no_grad():
        got = method.head(m, batch_of((s, y, q)))[0].numpy()
        sigma = m["scale"](torch.cat([s, q])).numpy()
    x = torch.cat([s, q]).numpy().reshape(7, -1) / sigma
    w = np.exp(-((x[:, None] - x[None]) ** 2).mean(2) / 2)
    keep = np.argsort(np.argsort(-w, 1), 1) < 4
    w = w * (keep | keep.T)
    d = w.sum(1)
    known = np.zeros((7, 2))
    known[np.arange(4), y] = 1
    f = np.linalg.inv(np.eye(7) - 0.99 * w / np.sqrt(d[:, None] * d[None])) @ known
    assert got == pytest.approx(f[4:], rel=1e-3, abs=1e-4)


def test_graph_layers_do_not_care_for_the_order_of_nodes():
    torch.manual_seed(0)
    edges, layer = Edges(5, 8).eval(), GraphConvolution(5, 3).eval()
    x, mask = torch.randn(2, 6, 5), torch.ones(2, 6, dtype=torch.bool)
    order = torch.randperm(6)
    with torch.no_grad():
        a = edges(x, mask)
        assert a.sum(-1).allclose(torch.ones(2, 6)) and a.diagonal(0, 1, 2).abs().max() < 1e-6
        out = layer(x, a, mask)
        moved = layer(x[:, order], edges(x[:, order], mask), mask)
    torch.testing.assert_close(moved, out[:, order], atol=1e-5, rtol=1e-5)


def test_graph_convolution_by_hand():
    layer = GraphConvolution(1, 1, norm=False)
    with torch.no_grad():
        layer.linear.weight.copy_(torch.tensor([[2.0, 10.0]]))
        layer.linear.bias.fill_(1.0)
        x = torch.tensor([[[1.0], [2.0], [4.0]]])
        a = torch.tensor([[[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.25, 0.75, 0.0]]])
        out = layer(x, a, torch.ones(1, 3, dtype=torch.bool))[0, :, 0]
    assert out.tolist() == [1 + 2 + 30, 1 + 4 + 10, 1 + 8 + 17.5]


def test_gnn_asks_more_ways_than_it_has_labels_for_in_groups():
    method = GNN(ways=3)
    m = method.untrained((16, 16, 3)).modules
    s, y, q = random_task(5, (64,), ways=5, shots=2)
    with torch.no_grad():
        got = method.head(m, batch_of((s, y, q)))[0]
        first = method.head(m, batch_of((s[y < 3], y[y < 3], q)))[0]
    torch.testing.assert_close(got[:, :3], first, atol=1e-5, rtol=1e-5)


def test_can_attention_sums_to_one_and_follows_its_kernel():
    fusion = Fusion(4, 2, 0.5).eval()
    correlation = torch.rand(2, 3, 5, 4, 4)
    with torch.no_grad():
        torch.testing.assert_close(fusion(correlation).sum(-1), torch.ones(2, 3, 5))
        fusion.up.weight.zero_()
        fusion.up.bias.fill_(4.0)
        want = torch.softmax(correlation.sum(-1) / 0.5, -1)
        torch.testing.assert_close(fusion(correlation), want)


def test_can_with_a_flat_attention_is_the_cosine_of_averages():
    method = CAN(temperature=1e9)
    m = method.untrained((32, 32, 3)).modules
    s, y, q = random_task(6, (64, 2, 2), ways=3, shots=2)
    with torch.no_grad():
        got = method.head(m, batch_of((s, y, q)))[0]
    means = torch.stack([s[torch.as_tensor(y == c)].mean(0) for c in range(3)]).mean((-1, -2))
    want = 7 * F.cosine_similarity(q.mean((-1, -2))[:, None], means[None], -1)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


def test_unsound_options_are_refused():
    with pytest.raises(BadInput, match="neighbour"):
        make("dn4", neighbours=0)
    with pytest.raises(BadInput, match="ways"):
        make("gnn", ways=1)


@pytest.mark.parametrize("method", [DN4(), CovaMNet()], ids=lambda m: m.name)
def test_slices_of_a_batch_answer_as_the_whole(method, monkeypatch):
    m = method.untrained((32, 32, 3)).modules
    tasks = [random_task(i, (64, 2, 2), ways=2 + i, shots=1 + i % 2, queries=3 + i) for i in range(4)]
    with torch.no_grad():
        whole = method.head(m, batch_of(*tasks))
        monkeypatch.setattr("handful.methods.pieces.slices.BUDGET", 1)
        sliced = method.head(m, batch_of(*tasks))
    for i, (_, _, q) in enumerate(tasks):
        torch.testing.assert_close(sliced[i, : len(q)], whole[i, : len(q)], atol=1e-4, rtol=1e-4)
