"""Metric methods against references computed another way."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from handful.errors import BadInput, Mismatch
from handful.methods.contract import make
from handful.methods.layers.graph import Edges, NeighbourConvolution, nearest_edges, propagate
from handful.methods.layers.imagetasks import Images
from handful.methods.layers.local import by_class
from handful.methods.metric.can import CAN, Fusion, TransductiveCAN
from handful.methods.metric.covamnet import CovaMNet
from handful.methods.metric.deepbdc import BDC, DeepBDC, STLDeepBDC, bdc_matrix, triangles
from handful.methods.metric.dn4 import DN4
from handful.methods.metric.gnn import GNN
from handful.methods.metric.tpn import TPN
from handful.tasks.episode import Query, Support
from made.zoo import batch_of, padded_is_alone, random_task

ALL = [
    DN4(),
    CovaMNet(),
    TPN(),
    GNN(),
    CAN(),
    TransductiveCAN(),
    DeepBDC(),
    DeepBDC(reduce=16),
    STLDeepBDC(net="conv4:filters=16"),
]


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


@pytest.mark.parametrize("shots", [1, 2])
def test_deepbdc_scores_are_numpys(shots):
    method = DeepBDC(net="conv4:filters=4")
    m = method.untrained((32, 32, 3)).modules
    s, y, q = random_task(7, (4, 2, 2), ways=3, shots=shots)
    upper = np.triu_indices(4)

    def triangle(x):
        a = np.array([[np.sqrt(((u - v) ** 2).sum() / 8 + 1e-5) for u in x] for v in x])
        h = np.eye(4) - 0.25
        return (h @ a @ h)[upper]

    a, b = (np.stack([triangle(x.reshape(4, 4)) for x in z.double().numpy()]) for z in (s, q))
    means = np.stack([a[y == c].mean(0) for c in range(3)])
    want = b @ means.T if shots == 1 else -((b[:, None] - means[None]) ** 2).sum(-1)
    with torch.no_grad():
        assert method.head(m, batch_of((s, y, q)))[0].numpy() == pytest.approx(want, abs=1e-5)


def test_deepbdcs_reduction_does_not_normalise_by_padding():
    method = DeepBDC(net="conv4:filters=4", reduce=3)
    b = batch_of(random_task(8, (4, 2, 2), ways=2, shots=1, queries=2), random_task(9, (4, 2, 2), ways=4, shots=3))
    m = method.untrained((32, 32, 3)).modules.train()
    with torch.no_grad():
        s, q = triangles(m, b)
        real = torch.cat([b.s[b.s_mask], b.q[b.q_mask]])
        torch.testing.assert_close(torch.cat([s[b.s_mask], q[b.q_mask]]), m["bdc"](real))
    assert not s[~b.s_mask].any()


# What Fei-Long121/DeepBDC at adfab39 answers in training mode (methods/bdc_module.py, `metric` of methods/meta_deepbdc.py, in
# double precision): maps of a sine, the reduction's weights another, classes in order, two queries per class.
PUBLIC_BDC = {
    1: [
        [0.503988, 0.502194, 0.502187],
        [0.404985, 0.404917, 0.403227],
        [0.493734, 0.491844, 0.491961],
        [0.409491, 0.40973, 0.407719],
        [0.482002, 0.480183, 0.480229],
        [0.419266, 0.419644, 0.417542],
    ],
    2: [
        [-0.014638, -0.009379, -0.001658],
        [-0.011893, -0.012126, -0.001508],
        [-0.011048, -0.012438, -0.002513],
        [-0.00605, -0.009215, -0.031869],
        [-0.005808, -0.008885, -0.030768],
        [-0.016886, -0.01021, -0.003997],
    ],
}


@pytest.mark.parametrize("shots", [1, 2])
def test_deepbdc_in_training_is_the_public_codes(shots):
    """Its reduction's batch norm sees support and queries together; see PUBLIC_BDC."""
    wave = lambda step, *shape: torch.sin(step * torch.arange(math.prod(shape)).double()).view(*shape)  # noqa: E731
    method = DeepBDC(net="conv4:filters=4", reduce=3)
    bdc = BDC((4, 2, 3), 3).double().train()
    with torch.no_grad():
        bdc.reduce[0].weight.copy_(wave(1.3, 3, 4, 1, 1))
        maps = wave(0.7, 3, shots + 2, 4, 2, 3)
        task = maps[:, :shots].flatten(0, 1), np.repeat(np.arange(3), shots), maps[:, shots:].flatten(0, 1)
        got = method.head(torch.nn.ModuleDict({"bdc": bdc}), batch_of(task))[0]
    assert got.numpy() == pytest.approx(np.array(PUBLIC_BDC[shots]), abs=2e-6)


def test_deepbdc_pretrains_with_the_triangle_dropped_before_the_classifier():
    """All but a thousandth dropped, training sees next to nothing but the bias; evaluation sees all of it."""
    method = DeepBDC(net="conv4:filters=4", dropout=0.999)
    assert [(s.on, s.learns) for s in method.stages()] == [
        ("batches", ("backbone", "bdc", "classifier")),
        ("tasks", ("backbone", "bdc")),
    ]
    m = method.untrained((32, 32, 3), 6).modules.train()
    with torch.no_grad():
        m["classifier"].weight.mul_(100.0)
        x, y = torch.randn(2, 3, 32, 32), torch.tensor([1, 4])
        losses = [float(method.batch_loss(m, x, y)) for _ in range(21)]
    assert np.median(losses) == pytest.approx(np.log(6), abs=1e-4)
    with torch.no_grad():
        assert abs(float(method.batch_loss(m.eval(), x, y)) - np.log(6)) > 0.1


def test_a_folder_from_before_the_first_stage_is_still_read():
    method = DeepBDC(net="conv4:filters=4")
    saved = method.untrained((32, 32, 3), 6)
    state = {k: v for k, v in saved.state().items() if not k.startswith("classifier")}
    options = {k: v for k, v in method.options().items() if k not in ("pretrain", "dropout")}
    read = method.load(state, {**saved.facts(), "options": options}, saved.compute, "folder")
    assert all(torch.equal(v, read.state()[k]) for k, v in state.items())
    with pytest.raises(Mismatch, match="classifier"):
        method.load(state, {**saved.facts(), "options": method.options()}, saved.compute, "folder")


def test_transductive_can_is_the_public_codes():
    """`test_transductive` of blue-blue272/fewshot-CAN at 6055985 in double precision, maps as they are: five ways, one shot,
    15 queries, two rounds; the maps are sums of a sine and a cosine, the attention's weights sines."""
    wave = lambda step, *shape: torch.sin(step * torch.arange(math.prod(shape)).double()).view(*shape)  # noqa: E731
    theirs = {
        0: [4.37413, -6.06368, -5.42525, 3.5463, -0.90344],
        2: [-4.61615, 6.76311, 4.18243, -4.68612, -0.14557],
        4: [-0.93988, -6.68669, -0.52221, 6.98595, -2.87693],
        8: [-5.44612, -1.71797, 4.82167, 4.45608, -5.7342],
        14: [6.7788, -0.53966, -6.79994, -2.63552, 3.38317],
    }
    fusion = Fusion(36, 6, 0.025).double().eval()
    with torch.no_grad():
        fusion.down.weight.copy_(wave(1.3, 6, 36))
        fusion.up.weight.copy_(wave(0.9, 36, 6))
        fusion.down.bias.zero_()
        fusion.up.bias.zero_()
        maps = []
        for step, n in ((0.7, 5), (0.77, 15)):
            other = torch.cos(2.1 * torch.arange(n * 3 * 36).double() ** 1.1).view(n, 3, 6, 6)
            maps.append(wave(step, n, 3, 6, 6) + other)
        b = batch_of((maps[0], np.arange(5), maps[1]))
        m = torch.nn.ModuleDict({"fusion": fusion})
        got = TransductiveCAN().head(m, b)[0].numpy()
        alone = CAN().head(m, b)[0].numpy()
    for row, scores in theirs.items():
        assert got[row] == pytest.approx(scores, abs=2e-5)
    assert abs(got - alone).max() > 4, "the queries have a say"
    assert TransductiveCAN().transductive and not CAN().transductive


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


def test_equally_near_nodes_are_all_neighbours_whatever_their_order():
    w = torch.full((6, 6), 0.5).fill_diagonal_(1.0)
    assert torch.equal(nearest_edges(w, 3), w)


def test_tpn_in_a_padded_batch_answers_as_alone_where_scores_are_large():
    """(I - αS)⁻¹ blows rounding up a hundred times: a graph whose nodes are all near gives scores of about 20."""
    method = TPN(net="conv4:filters=16")
    m = method.untrained((32, 32, 3)).modules
    with torch.no_grad():
        for seed in range(8):
            tasks = [random_task(seed, (16, 2, 2), ways=5, shots=shots, queries=15) for shots in (1, 5)]
            tasks = [(0.4 * s, y, 0.4 * q) for s, y, q in tasks]
            together = method.head(m, batch_of(*tasks))
            for i, task in enumerate(tasks):
                alone = method.head(m, batch_of(task))[0]
                torch.testing.assert_close(together[i], alone, atol=2e-5, rtol=0)


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
    edges, layer = Edges(5, 8).eval(), NeighbourConvolution(5, 3).eval()
    x, mask = torch.randn(2, 6, 5), torch.ones(2, 6, dtype=torch.bool)
    order = torch.randperm(6)
    with torch.no_grad():
        a = edges(x, mask)
        assert a.sum(-1).allclose(torch.ones(2, 6)) and a.diagonal(0, 1, 2).abs().max() < 1e-6
        out = layer(x, a, mask)
        moved = layer(x[:, order], edges(x[:, order], mask), mask)
    torch.testing.assert_close(moved, out[:, order], atol=1e-5, rtol=1e-5)


def test_graph_convolution_by_hand():
    layer = NeighbourConvolution(1, 1, norm=False)
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
    correlation, real = torch.rand(2, 3, 5, 4, 4), torch.ones(2, 3, 5, dtype=torch.bool)
    with torch.no_grad():
        torch.testing.assert_close(fusion(correlation, real).sum(-1), torch.ones(2, 3, 5))
        fusion.up.weight.zero_()
        fusion.up.bias.fill_(4.0)
        want = torch.softmax(correlation.sum(-1) / 0.5, -1)
        torch.testing.assert_close(fusion(correlation, real), want)


class Maps(torch.nn.Module):
    """Images that are their own maps."""

    def maps(self, x):
        return x


def can_loss_by_loops(m, tasks, labels, classes, scale=7.0, temperature=0.025, balance=0.5):
    """The paper's loss pair by pair; batch norm over the pairs that exist, in training mode."""
    unit = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)  # noqa: E731
    layers = {k: v.detach().double().numpy() for k, v in m["fusion"].named_parameters()}
    places = lambda x: x.double().numpy().reshape(*x.shape[:2], -1).transpose(0, 2, 1)  # noqa: E731
    pairs = {}
    for t, (s, y, q) in enumerate(tasks):
        means = [places(s[torch.as_tensor(y == c)]).mean(0) for c in range(y.max() + 1)]
        pairs |= {(t, i, c): (p, x) for i, x in enumerate(places(q)) for c, p in enumerate(means)}

    def weighed(own, other):
        correlations = [unit(pairs[k][own]) @ unit(pairs[k][other]).T for k in pairs]
        h = np.stack([r.mean(0) for r in correlations]) @ layers["down.weight"].T + layers["down.bias"]
        h = (h - h.mean(0)) / np.sqrt(h.var(0) + 1e-5) * layers["norm.norm.weight"] + layers["norm.norm.bias"]
        kernels = np.maximum(h, 0) @ layers["up.weight"].T + layers["up.bias"]
        out = {}
        for key, r, kernel in zip(pairs, correlations, kernels, strict=True):
            e = np.exp((r * kernel).mean(1) / temperature)
            out[key] = pairs[key][own] * (1 + e / e.sum())[:, None]
        return out

    p, x = weighed(0, 1), weighed(1, 0)
    local, world = [], []
    for t, (_, y, q) in enumerate(tasks):
        for i in range(len(q)):
            cosines = [unit(x[t, i, c]) @ unit(p[t, i, c].mean(0)) for c in range(y.max() + 1)]
            logits = scale * np.stack(cosines, 1)
            local += list(-np.log(np.exp(logits[:, labels[t][i]]) / np.exp(logits).sum(1)))
            named = m["classifier"](torch.tensor(x[t, i, labels[t][i]]).float()).detach().double()
            world += (-torch.log_softmax(named, -1)[:, classes[t][i]]).tolist()
    return balance * np.mean(local) + np.mean(world)


def test_can_learns_from_places_and_from_the_training_classes_by_loops():
    """Two tasks of unequal ways and queries: padding takes part in nothing, batch norm's statistics included."""
    method = CAN(net="conv4:filters=8", ratio=2)
    m = method.untrained((32, 32, 3), 6).modules.train()
    m["backbone"] = Maps()
    with torch.no_grad():
        m["fusion"].up.weight.mul_(0.1)
    tasks = [random_task(3, (8, 2, 2), ways=4, shots=2, queries=2), random_task(4, (8, 2, 2), ways=2, queries=5)]
    tasks = [(s.relu() + 0.1, y, q.relu() + 0.1) for s, y, q in tasks]
    labels, classes = [[3, 0], [1, 0, 0, 1, 1]], [[5, 2], [1, 4, 4, 1, 1]]
    drawn = [
        SimpleNamespace(support=Support((int(y.max()) + 1,), s.numpy(), y), query=Query(q.numpy())) for s, y, q in tasks
    ]
    padded = torch.tensor([row + [-2] * (5 - len(row)) for row in labels])
    of_image = torch.tensor([c for (s, _, _), own in zip(tasks, classes, strict=True) for c in [0] * len(s) + own])
    x = torch.cat([part for s, _, q in tasks for part in (s, q)])
    got = method.image_loss(m, Images(drawn, x, of_image, padded, torch.Generator()))
    assert float(got.detach()) == pytest.approx(can_loss_by_loops(m, tasks, labels, classes), abs=1e-4)


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
        monkeypatch.setattr("handful.methods.layers.slices.BUDGET", 1)
        sliced = method.head(m, batch_of(*tasks))
    for i, (_, _, q) in enumerate(tasks):
        torch.testing.assert_close(sliced[i, : len(q)], whole[i, : len(q)], atol=1e-4, rtol=1e-4)
