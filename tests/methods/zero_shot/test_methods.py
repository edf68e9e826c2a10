"""Zero-shot methods by hand: closed forms, losses on two classes, propagation against dense products, planted truth."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.stats import spearmanr

from handful.data.semantics import Semantics
from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput, Mismatch
from handful.methods.contract import load
from handful.methods.zero_shot import tuning
from handful.methods.zero_shot.adgpm import ADGPM
from handful.methods.zero_shot.cmt import CMT, mapped
from handful.methods.zero_shot.conse import ConSE, combine
from handful.methods.zero_shot.data import Candidates, ClassGraph, Training
from handful.methods.zero_shot.devise import DeViSE, first_violation, ranking_hinges
from handful.methods.zero_shot.eszsl import ESZSL, Solved
from handful.methods.zero_shot.gcnz import GCNZ
from handful.methods.zero_shot.latem import LATEM, latent_loss, sample_step
from handful.methods.zero_shot.learner import stacked
from handful.methods.zero_shot.linear import softmax_regression
from handful.methods.zero_shot.propagation import GraphLayer, GraphNet, adjacency, groups
from handful.methods.zero_shot.sgcn import SGCN
from handful.methods.zero_shot.sync import SYNC, crammer_singer, one_versus_other, weights
from handful.methods.zero_shot.trivial import Trivial
from handful.metrics.base import Estimate
from handful.metrics.structure import structural_ratio, trivial_mapping
from handful.runs.evaluate import evaluate
from handful.tasks.nway import NWay
from handful.tasks.zero_shot import GeneralisedZeroShot, ZeroShot
from learning import decide, over_images
from made.graphs import random_dag
from made.planted import planted

SMALL = {"hidden": (64,), "epochs": 150}
ALL = [
    Trivial(),
    ConSE(),
    DeViSE(rate=1e-2),
    ESZSL(),
    SYNC(),
    LATEM(rate=1e-2),
    CMT(rate=1e-2),
    SGCN(**SMALL),
    GCNZ(hidden=(64, 64, 32, 32, 32), epochs=200),
    ADGPM(**SMALL),
]


def top1(method, collection, semantics, split="test") -> Estimate:
    learner = method.meta_fit(ZeroShot(collection.train, semantics), ZeroShot(collection.valid, semantics))
    rule = ZeroShot(collection.part(split), semantics)
    return over_images(evaluate(learner, rule, n=rule.size), "top1")


@pytest.mark.parametrize("targets", ["binary", "signs"])
@pytest.mark.parametrize("by", ["samples", "means"])
def test_eszsl_equals_its_closed_form_in_numpy(targets: str, by: str) -> None:
    rng = np.random.default_rng(0)
    x, s, y = rng.normal(size=(60, 9)), rng.normal(size=(5, 4)), rng.integers(0, 5, 60)
    hot = np.eye(5)[y]
    a, b = (x, hot) if by == "samples" else (np.stack([x[y == c].mean(0) for c in range(5)]), np.eye(5))
    b = b if targets == "binary" else 2 * b - 1
    expected = np.linalg.inv(a.T @ a + 0.3 * np.eye(9)) @ a.T @ b @ s @ np.linalg.inv(s.T @ s + 2.0 * np.eye(4))
    found = Solved.of(torch.as_tensor(x), torch.as_tensor(y), torch.as_tensor(s), targets, by).at(0.3, 2.0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_conse_on_a_hand_case() -> None:
    train = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    probability = torch.tensor([[0.6, 0.3, 0.1]])
    candidates = torch.tensor([[2.0, 1.0], [1.0, 1.0], [0.0, 3.0]])
    # Top two: (0.6 * (1, 0) + 0.3 * (0, 1)) / 0.9 = (2/3, 1/3), along the first candidate.
    mean = np.array([2 / 3, 1 / 3])
    cosine = [mean @ c / np.linalg.norm(mean) / np.linalg.norm(c) for c in candidates.numpy()]
    np.testing.assert_allclose(combine(probability, train, candidates, top=2)[0], cosine, rtol=1e-5)
    assert combine(probability, train, candidates, top=2).argmax() == 0 and cosine[0] == pytest.approx(1.0)
    # Top one: the description of the likeliest class alone.
    np.testing.assert_allclose(combine(probability, train, candidates, 1)[0], [2 / 5**0.5, 1 / 2**0.5, 0], rtol=1e-5)


def test_devise_loss_by_hand_on_two_classes() -> None:
    scores, y = torch.tensor([[0.5, 0.45], [0.2, 0.9]]), torch.tensor([0, 0])
    hinges = ranking_hinges(scores, y, 0.1)
    np.testing.assert_allclose(hinges, [[0, 0.1 - 0.5 + 0.45], [0, 0.1 - 0.2 + 0.9]], rtol=1e-5)
    np.testing.assert_allclose(ranking_hinges(scores, torch.tensor([1, 1]), 0.1).sum(1), [0.15, 0.0], atol=1e-6)
    sigmoid = 1 / (1 + np.exp(-scores.numpy()))
    expected = np.maximum(0.7 - sigmoid[:, 0] + sigmoid[:, 1], 0)
    np.testing.assert_allclose(ranking_hinges(scores, y, 0.7, "sigmoid").sum(1), expected, rtol=1e-5)


def test_devise_can_train_on_one_violating_class_each() -> None:
    hinges = torch.tensor([[0.0, 0.3, 0.0, 0.2]]).repeat(4000, 1)
    drawn = first_violation(hinges, torch.Generator().manual_seed(0))
    assert set(drawn.tolist()) == set(hinges[0, [1, 3]].tolist())
    assert abs((drawn > 0.25).double().mean().item() - 0.5) < 0.03
    assert first_violation(torch.zeros(2, 3), torch.Generator()).tolist() == [0, 0]


def test_latem_loss_takes_the_best_map_of_each_side() -> None:
    w = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 2.0], [2.0, 0.0]]], requires_grad=True)
    x, right, wrong = torch.tensor([[1.0, 3.0]]), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    # x W_1 = (1, 3), x W_2 = (6, 2): right 6 by the second map, wrong 3 by the first; hinge 1 + 3 - 6 < 0.
    assert latent_loss(w, x, right, wrong, 1.0).item() == 0.0
    loss = latent_loss(w, x, right, wrong, 4.0)
    assert loss.item() == pytest.approx(4 + 3 - 6)
    loss.sum().backward()
    assert w.grad is not None and w.grad[0, :, 0].abs().sum() == 0 and w.grad[1, :, 1].abs().sum() == 0
    np.testing.assert_allclose(w.grad[1, :, 0], -x[0])


def test_a_published_latem_step_moves_the_two_maps_that_won() -> None:
    start = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 2.0], [2.0, 0.0]]])
    x, right, wrong = torch.tensor([1.0, 3.0]), torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    w = start.clone()
    sample_step(w, x, right, wrong, margin=1.0, rate=0.5)
    np.testing.assert_array_equal(w, start)
    # Wrong wins by the first map with 3, right by the second with 6: both move, by rate * x (outer) description.
    sample_step(w, x, right, wrong, margin=4.0, rate=0.5)
    np.testing.assert_array_equal(w[0], [[1.0, -0.5], [0.0, -0.5]])
    np.testing.assert_array_equal(w[1], [[0.5, 2.0], [3.5, 0.0]])
    # The same step by automatic differentiation of the loss.
    graph = start.clone().requires_grad_()
    latent_loss(graph, x[None], right[None], wrong[None], 4.0).sum().backward()
    np.testing.assert_allclose(start - 0.5 * graph.grad, w)


def test_latem_drops_the_maps_that_are_hardly_ever_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two maps each read one half of the features, in which one image of two says its class; two more read them wrongly."""
    rng = np.random.default_rng(0)
    y = torch.as_tensor(rng.integers(0, 4, 120))
    s, x = 4 * torch.eye(4), torch.zeros(120, 8)
    x[torch.arange(120), y + 4 * (torch.arange(120) % 2)] = 1.0
    reads = torch.stack([torch.cat([torch.eye(4), torch.zeros(4, 4)]), torch.cat([torch.zeros(4, 4), torch.eye(4)])])
    monkeypatch.setattr(LATEM, "_start", lambda self, data: torch.stack([reads[0], -reads[0], reads[1], -reads[1]]))
    data = Training(x, y, s, None, None)

    def left(**options: Any) -> Any:
        return LATEM(steps_by="samples", rate=1e-3, **options).learn(data)["W"]

    assert len(left(epochs=4, prune=0.05)) == 4 and len(left(epochs=5)) == 4
    kept = left(epochs=5, prune=0.05)
    assert len(kept) == 2
    torch.testing.assert_close(kept, reads, atol=0.2, rtol=0)
    assert len(left(epochs=5, prune=0.9)) >= 1  # the best is kept, however high the bar
    with pytest.raises(BadInput, match="steps_by"):
        LATEM(prune=0.05)
    with pytest.raises(BadInput, match="share"):
        LATEM(prune=2.0)


def test_sync_weights_and_loss_by_hand_on_two_classes() -> None:
    a = torch.tensor([[0.0, 0.0], [1.0, 0.0]])
    near = weights(torch.tensor([[0.25, 0.0]]), a, torch.tensor(0.5))
    expected = np.exp([-(0.25**2) / 0.25, -(0.75**2) / 0.25])
    np.testing.assert_allclose(near[0], expected / expected.sum(), rtol=1e-5)
    w, x = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[0.5, 0.25], [2.0, 1.0]])
    signs = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
    # Class 0: (1 - 0.5)^2, (1 + 2)^2; class 1: (1 + 0.5)^2, (1 - 2)_+^2 = 0; means over images.
    assert one_versus_other(w, x, signs).item() == pytest.approx((0.25 + 9) / 2 + 2.25 / 2)
    # Scores (0.5, 0.5) and (2, 2): each wrong class must come down by the margin, 1 or what is between the classes.
    y = torch.tensor([0, 1])
    assert crammer_singer(w, x, y, torch.ones(2, 2)).item() == pytest.approx(1.0)
    apart = torch.tensor([[0.0, 0.7], [0.3, 0.0]])
    assert crammer_singer(w, x, y, apart).item() == pytest.approx((0.7 + 0.3) / 2)
    assert crammer_singer(w, x + torch.tensor([[4.0, 0.0], [0.0, 0.0]]), y, apart).item() == pytest.approx(0.15)


def test_sync_with_crammer_and_singers_loss_is_their_support_vector_machine() -> None:
    from sklearn.svm import LinearSVC

    rng = np.random.default_rng(2)
    y = np.repeat(np.arange(4), 25)
    x = (rng.normal(size=(4, 6))[y] + 0.8 * rng.normal(size=(100, 6))).astype(np.float32)
    data = Training(torch.as_tensor(x), torch.as_tensor(y), torch.eye(4), None, None)
    # Phantoms far apart for a small sigma: every class has its own base classifier.
    state = SYNC(loss="crammer-singer", sigma=0.05, lambda_=0.1, steps=500).learn(data)
    reference = LinearSVC(multi_class="crammer_singer", C=1 / (0.1 * 100), fit_intercept=False, max_iter=100_000)
    reference.fit(x, y)

    def objective(w: np.ndarray) -> float:
        loss = crammer_singer(torch.as_tensor(w, dtype=torch.float32), data.x, data.y, torch.ones(4, 4))
        return float(loss) + 0.05 * float((w**2).sum())

    best = objective(reference.coef_)
    assert best - 1e-3 <= objective(state["V"].numpy()) <= best + 5e-3


def test_cmt_map_and_distance_by_hand() -> None:
    first, second = torch.tensor([[1.0, 0.0], [0.0, -1.0]]), torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    x = torch.tensor([[0.5, 0.25]])
    guess = np.array([np.tanh(0.5), 2 * np.tanh(-0.25)])
    np.testing.assert_allclose(mapped(x, first, second)[0], guess, rtol=1e-5)
    s = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    scores = CMT().score({"T1": first, "T2": second}, Candidates(s, None, torch.full((2,), -1)), x)
    np.testing.assert_allclose(scores[0], [-((guess - c) ** 2).sum() for c in s.numpy()], rtol=1e-4)


def test_softmax_regression_reaches_the_optimum() -> None:
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(90, 5)), rng.integers(0, 3, 90)
    weight, bias = softmax_regression(torch.as_tensor(x), torch.as_tensor(y), 3, decay=0.02, steps=500)
    reference = LogisticRegression(C=1 / (0.02 * 90), tol=1e-10, max_iter=5000).fit(x, y)
    np.testing.assert_allclose(weight, reference.coef_, atol=1e-3)
    np.testing.assert_allclose(bias - bias.mean(), reference.intercept_ - reference.intercept_.mean(), atol=1e-3)


FIVE = Taxonomy.of([("b", "a"), ("c", "a"), ("d", "b"), ("e", "d")])


def graph_of(tree: Taxonomy, width: int = 3) -> ClassGraph:
    nodes = torch.randn(len(tree), width, generator=torch.Generator().manual_seed(0))
    return ClassGraph(
        torch.as_tensor(tree.child.astype(np.int64)), torch.as_tensor(tree.parent.astype(np.int64)), nodes
    )


def test_propagation_equals_a_dense_product_and_keeps_a_constant() -> None:
    graph = graph_of(FIVE)
    a = np.eye(5)
    for child, parent in [(1, 0), (2, 0), (3, 1), (4, 3)]:
        a[child, parent] = a[parent, child] = 1
    row = a / a.sum(1, keepdims=True)
    np.testing.assert_allclose(adjacency(graph, "row").to_dense(), row, rtol=1e-6)
    root = np.sqrt(a.sum(1))
    np.testing.assert_allclose(adjacency(graph, "symmetric").to_dense(), a / root[:, None] / root, rtol=1e-6)
    constant = torch.full((5, 2), 3.0)
    np.testing.assert_allclose(torch.sparse.mm(adjacency(graph, "row"), constant), constant, rtol=1e-6)
    layer = GraphLayer(3, 4, 1, 0.5, False, torch.Generator())
    h = graph.nodes.numpy() @ layer.weight.detach().numpy() + layer.bias.detach().numpy()
    h = row @ h
    np.testing.assert_allclose(
        layer(graph.nodes, [adjacency(graph, "row")]).detach(), np.where(h > 0, h, 0.2 * h), rtol=1e-4, atol=1e-6
    )


def test_gcnz_has_no_bias_and_drops_before_its_last_two_layers_as_the_public_code_does() -> None:
    """GCN_dense_mse of JudyYe/zero-shot-gcn (0902b15, src/gcn/models.py), written out with dense matrices."""
    graph = graph_of(FIVE)
    method = GCNZ(hidden=(6, 5, 5, 4, 4), tune=False)
    widths = [graph.nodes.shape[1], *method.hidden, 3]
    net = GraphNet(
        widths,
        method.sets(graph),
        0.5,
        torch.Generator().manual_seed(0),
        bias=GCNZ.has_bias,
        dropped=GCNZ.dropped_layers,
    )
    a = np.eye(5)
    for child, parent in [(1, 0), (2, 0), (3, 1), (4, 3)]:
        a[child, parent] = a[parent, child] = 1
    a = a / np.sqrt(a.sum(1))[:, None] / np.sqrt(a.sum(1))
    h = graph.nodes.numpy().astype(float)
    for i, layer in enumerate(net.layers):
        h = a @ (h @ layer.weight.detach().numpy())
        h = np.maximum(h, 0.2 * h) if i < 5 else h / np.linalg.norm(h, axis=1, keepdims=True)
    np.testing.assert_allclose(net(graph.nodes).detach(), h, rtol=1e-4, atol=1e-5)
    assert [layer.dropout for layer in net.layers] == [0, 0, 0, 0, 0.5, 0.5]
    assert not [name for name, _ in net.named_parameters() if name.endswith("bias")]


def test_adgpm_groups_on_a_five_node_tree() -> None:
    graph = graph_of(FIVE)
    up = [g.to_dense().numpy() for g in groups(graph, "ancestors", farthest=2)]
    np.testing.assert_array_equal(up[0], np.eye(5))
    # Parents: b, c -> a; d -> b; e -> d. Two steps or more: d -> a; e -> b and a, half each.
    expected = np.zeros((5, 5))
    expected[1, 0] = expected[2, 0] = expected[3, 1] = expected[4, 3] = 1
    np.testing.assert_array_equal(up[1], expected)
    expected = np.zeros((5, 5))
    expected[3, 0] = 1
    expected[4, [0, 1]] = 0.5
    np.testing.assert_array_equal(up[2], expected)
    down = [g.to_dense().numpy() for g in groups(graph, "descendants", farthest=2)]
    np.testing.assert_array_equal(down[1][0], [0, 0.5, 0.5, 0, 0])
    np.testing.assert_array_equal(down[2][0], [0, 0, 0, 0.5, 0.5])
    layer = GraphLayer(3, 2, 3, 0.0, True, torch.Generator())
    with torch.no_grad():
        layer.attention.copy_(torch.tensor([0.0, np.log(2.0), np.log(3.0)]))
        h = graph.nodes.numpy() @ layer.weight.numpy() + layer.bias.numpy()
        expected = (1 * up[0] + 2 * up[1] + 3 * up[2]) / 6 @ h
        np.testing.assert_allclose(layer(graph.nodes, groups(graph, "ancestors", 2)), expected, rtol=1e-4, atol=1e-6)


def test_adgpm_hears_descendants_first_as_the_public_code_does() -> None:
    """cyvius96/DGP's layers written out for a small DAG, with edges child -> ancestor by distance."""
    tree = Taxonomy.of([("b", "a"), ("c", "a"), ("d", "b"), ("d", "c"), ("e", "d"), ("f", "c")])
    graph = graph_of(tree)
    at = {str(name): i for i, name in enumerate(tree.ids)}
    distances = {
        0: [(x, x) for x in "abcdef"],
        1: ["ba", "ca", "db", "dc", "ed", "fc"],
        2: ["da", "eb", "ec", "fa"],
        3: ["ea"],
    }
    up, down = [], []
    for edges in distances.values():
        one = np.zeros((6, 6))
        for child, ancestor in edges:
            one[at[child], at[ancestor]] = 1
        # normt_spm(adj, "in") is the row-normalised transpose.
        for into, matrix in ((down, one.T), (up, one)):
            into.append(
                np.divide(matrix, matrix.sum(1, keepdims=True), where=matrix.sum(1, keepdims=True) > 0, out=0 * matrix)
            )
    net = GraphNet([3, 5, 4], ADGPM(farthest=3).sets(graph), 0.0, torch.Generator().manual_seed(3))
    with torch.no_grad():
        for layer, values in zip(net.layers, ([0.1, 0.9, -0.4, 0.2], [-0.3, 0.5, 0.8, 0.0]), strict=True):
            layer.attention.copy_(torch.tensor(values))
            layer.bias.copy_(torch.linspace(-1, 1, len(layer.bias)))
    h = graph.nodes.numpy()
    for layer, side in zip(net.layers, (down, up), strict=True):
        share = torch.softmax(layer.attention.detach(), 0).numpy()
        support = h @ layer.weight.detach().numpy() + layer.bias.detach().numpy()
        h = sum(w * a @ support for w, a in zip(share, side, strict=True))
        h = h if layer.last else np.where(h > 0, h, 0.2 * h)
    np.testing.assert_allclose(net(graph.nodes).detach(), h / np.linalg.norm(h, axis=1, keepdims=True), rtol=1e-4)


@pytest.mark.parametrize("method", [SGCN(), GCNZ(), ADGPM()], ids=lambda m: m.name)
def test_a_receptive_field_gives_its_nodes_what_the_whole_graph_gives_them(method) -> None:
    tree, _ = random_dag(60, seed=1)
    graph = graph_of(tree)
    net = GraphNet([3, *(8 for _ in method.hidden), 4], method.sets(graph), 0.5, torch.Generator().manual_seed(0))
    rows = torch.tensor([7, 55, 20])
    field = net.field(rows)
    with torch.no_grad():
        np.testing.assert_allclose(net(graph.nodes, field), net(graph.nodes)[rows], rtol=1e-4, atol=1e-6)
    if method.name == "sgcn":  # six layers reach all of a graph, and a root hears all of its descendants
        assert len(field.nodes) < 60


@pytest.mark.parametrize("ties", ["first", "average"])
def test_the_trivial_method_describes_classes_as_the_structure_does(ties: str) -> None:
    collection, semantics = planted(0.5)
    method = Trivial(ties=ties, noise=0.0, tune=False)
    learner = method.meta_fit(ZeroShot(collection.train, semantics))
    tree, test = semantics.taxonomy, collection.test.class_names
    local = method.local(learner.tensors, torch.as_tensor(tree.index(test)))
    np.testing.assert_allclose(local, trivial_mapping(tree, collection.train.class_names, test, ties=ties), rtol=1e-6)


@pytest.mark.learning
@pytest.mark.parametrize("method", ALL, ids=lambda m: m.name)
def test_every_method_beats_chance_on_planted_compositions(method) -> None:
    collection, semantics = planted(0.0)
    decide(top1(method, collection, semantics), above=0.1)


def test_the_trivial_solution_falls_to_chance_as_r_grows_and_attributes_do_not() -> None:
    shares = (0.0, 0.5, 1.0)
    ratio, trivial, attributes = [], [], []
    for share in shares:
        collection, semantics = planted(share)
        train, test = collection.train.class_names, collection.test.class_names
        ratio.append(structural_ratio(semantics.taxonomy, train, test).value)
        trivial.append(top1(Trivial(), collection, semantics).value)
        attributes.append(top1(ESZSL(), collection, semantics).value)
    assert ratio == sorted(ratio) and ratio[0] <= 0.5 and ratio[-1] > 2
    assert trivial[0] > 0.75 and trivial == sorted(trivial, reverse=True)
    # Ten candidates share one nearest training class at the end: noise alone tells them apart.
    assert abs(trivial[-1] - 0.1) < 0.08
    assert min(attributes) > 0.45


@pytest.mark.parametrize("method", ALL, ids=lambda m: m.name)
def test_a_saved_learner_answers_the_same(method, tmp_path) -> None:
    from handful import registry

    if method.name not in registry.table("methods"):
        pytest.skip(f"{method.name} is not registered")
    collection, semantics = planted(0.5)
    small = dataclasses.replace(method, tune=False)
    learner = small.meta_fit(ZeroShot(collection.train, semantics))
    rule = ZeroShot(collection.test, semantics)
    task = rule.read(rule.draw(0, 1))
    learner.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(
        again.fit(task.support).predict(task.query), learner.fit(task.support).predict(task.query)
    )
    # A learner kept from one split serves another without being trained again.
    other = GeneralisedZeroShot(collection.test, semantics)
    assert again.fit(other.support(other.draw(0, 0))).predict(task.query).shape == (
        len(task.query),
        len(other.candidates),
    )


def test_hyper_parameters_are_chosen_on_validation_classes_only(monkeypatch) -> None:
    monkeypatch.setattr(tuning, "WIDER", 0)
    collection, semantics = planted(0.0)
    train, valid = ZeroShot(collection.train, semantics), ZeroShot(collection.valid, semantics)
    chosen = ESZSL().meta_fit(train, valid).method
    by_hand = {}
    for gamma in ESZSL.grid["gamma"]:
        for lambda_ in ESZSL.grid["lambda_"]:
            learner = ESZSL(gamma=gamma, lambda_=lambda_).meta_fit(train)
            by_hand[(gamma, lambda_)] = evaluate(learner, valid, n=valid.size).estimate("top1").value
    assert by_hand[(chosen.gamma, chosen.lambda_)] == pytest.approx(max(by_hand.values()))
    with pytest.raises(BadInput, match="validation classes must be unseen"):
        ESZSL().meta_fit(train, train)


def test_calibration_at_infinity_leaves_one_side() -> None:
    collection, semantics = planted(0.0)
    train, rule = ZeroShot(collection.train, semantics), GeneralisedZeroShot(collection.test, semantics)
    values = {}
    for bias in (-np.inf, 0.0, np.inf):
        run = evaluate(ESZSL(calibration=bias).meta_fit(train), rule, n=rule.size)
        values[bias] = (run.estimate("seen1").value, run.estimate("unseen1").value)
    assert values[np.inf][0] == 0.0 and values[-np.inf][1] == 0.0
    assert values[np.inf][1] >= values[0.0][1] and values[-np.inf][0] >= values[0.0][0] > 0.3
    scores, seen = torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([True, False, True])
    assert stacked(scores, seen, 1.5).tolist() == [[1.5, 2.0, -0.5]]
    assert stacked(scores, seen, np.inf).argsort(descending=True).tolist() == [[1, 0, 2]]


def test_wrong_input_is_named_and_refused() -> None:
    collection, semantics = planted(0.0)
    train = ZeroShot(collection.train, semantics)
    flat = Semantics(semantics.descriptions)
    with pytest.raises(Mismatch, match="trivial needs the classes' hierarchy"):
        Trivial().meta_fit(ZeroShot(collection.train, flat))
    with pytest.raises(Mismatch, match="give meta_fit a zero-shot rule"):
        ESZSL().meta_fit(NWay(collection.train, 2, 1, 1))
    with pytest.raises(Mismatch, match="give meta_fit a rule"):
        ESZSL().meta_fit(None)
    few = Semantics.of(semantics.descriptions.names[:5], semantics.descriptions.matrix[:5])
    with pytest.raises(BadInput, match="no description of"):
        ESZSL().meta_fit(ZeroShot(collection.train, few))
    broken = np.array(collection.array)
    row = int(collection.train.rows[3])
    broken[row, 0] = np.nan
    from handful.data.collection import Collection

    bad = Collection(collection.card, collection.table, broken)
    with pytest.raises(BadInput, match=rf"features of image {row} \(\w+\) are not finite"):
        ESZSL().meta_fit(ZeroShot(bad.train, semantics))
    learner = SGCN(hidden=(8,), epochs=1).meta_fit(train)
    other = Semantics.of(semantics.descriptions.names, semantics.descriptions.matrix + 1, semantics.taxonomy)
    rule = ZeroShot(collection.test, other)
    with pytest.raises(Mismatch, match="not nodes of the hierarchy that sgcn was trained on"):
        learner.fit(rule.support(rule.draw(0, 0)))
    wide = Semantics.of(semantics.descriptions.names, np.ones((len(semantics.descriptions), 3)))
    rule = ZeroShot(collection.test, wide)
    with pytest.raises(Mismatch, match="trained on descriptions of 12 numbers, these have 3"):
        ESZSL().meta_fit(train).fit(rule.support(rule.draw(0, 0)))


def test_graph_classifiers_resemble_those_of_near_classes() -> None:
    collection, semantics = planted(0.0)
    learner = SGCN(**SMALL).meta_fit(ZeroShot(collection.train, semantics))
    w, tree = F.normalize(learner.tensors["classifiers"], dim=1), semantics.taxonomy
    names = collection.whole.class_names
    at = torch.as_tensor(tree.index(names))
    cosine = (w[at] @ w[at].T).numpy()
    alike = semantics.descriptions.of(names)
    distance = np.abs(alike[:, None] - alike[None]).sum(2)
    upper = np.triu_indices(len(names), 1)
    assert spearmanr(cosine[upper], -distance[upper]).statistic > 0.3
