"""Hand-computed cases of the compositional methods, and what their training must keep."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from handful.errors import Mismatch
from handful.methods.batch import Batch, pad
from handful.methods.compositional.cge import CGE, PairGraph
from handful.methods.compositional.lifted import PairProtoNet, axes_of, axis_labels, join
from handful.methods.compositional.per_task import Noise, linear
from handful.methods.compositional.redwine import RedWine
from handful.methods.compositional.refined_protonet import DescriptionMixing, RefinedProtoNetWords, select
from handful.methods.compositional.symnet import Moved, SymNet
from handful.methods.compositional.visualprod import VisualProd
from handful.methods.contract import make
from handful.methods.metric.protonet import ProtoNet
from handful.methods.schedule import Schedule
from handful.nets.graph import pair_graph, propagate, row_normalised
from handful.tasks.nway import NWay
from handful.tasks.pairs import Pairs
from learning import decide
from made.grids import full, grid


def tasks(shapes=((2, 3), (3, 3)), width=4, seed=0, words=0) -> Batch:
    """Random features; task t has shapes[t], two support images of each diagonal-ish pair."""
    g = torch.Generator().manual_seed(seed)
    rng = np.random.default_rng(seed)
    cut, described = [], []
    for n1, n2 in shapes:
        labels = np.repeat([(i % n1) * n2 + i % n2 for i in range(max(n1, n2))], 2)
        n = len(labels)
        cut.append((torch.randn(n, width, generator=g), labels, torch.randn(n + 1, width, generator=g)))
        described.append((rng.normal(size=(n1, words)), rng.normal(size=(n2, words))) if words else None)
    return pad(cut, list(shapes), [5 + t for t in range(len(shapes))], descriptions=described if words else None)


def alone(b: Batch, t: int) -> Batch:
    s, q = int((b.y[t] != -2).sum()), int(b.q_mask[t].sum())
    shown = None if b.descriptions is None else [b.descriptions[t]]
    return pad([(b.s[t, :s], b.y[t, :s].numpy(), b.q[t, :q])], [b.shapes[t]], [b.seeds[t]], descriptions=shown)


# the adapter


def test_axis_labels_are_quotient_and_remainder_and_padding_stays():
    first, second = axis_labels(torch.tensor([[0, 5, 7, -1, -2]]), 3)
    assert first.tolist() == [[0, 1, 2, -1, -2]] and second.tolist() == [[0, 2, 1, -1, -2]]


def test_joined_logits_are_the_sum_of_log_probabilities_and_sum_to_one():
    b = tasks()
    first, second = torch.randn(2, 7, 3), torch.randn(2, 7, 3)
    first[0, :, 2] = float("-inf")
    out = join(b, first, second)
    p, q = F.log_softmax(first, -1), F.log_softmax(second, -1)
    for t, (n1, n2) in enumerate(b.shapes):
        for c in range(n1 * n2):
            torch.testing.assert_close(out[t, :, c], p[t, :, c // n2] + q[t, :, c % n2])
        assert torch.isneginf(out[t, :, n1 * n2 :]).all()
        torch.testing.assert_close(out[t, :, : n1 * n2].exp().sum(-1), torch.ones(7))


def test_pair_cross_entropy_is_the_sum_of_the_primitives():
    b, m = tasks(), nn.ModuleDict({"backbone": nn.Identity(), "first": nn.ModuleDict(), "second": nn.ModuleDict()})
    labels = torch.randint(0, 6, b.q.shape[:2])
    method = PairProtoNet()
    pair = F.cross_entropy(method.head(m, b).flatten(0, 1), labels.flatten())
    torch.testing.assert_close(method.task_loss(m, b, labels), pair)


def test_lifted_protonet_is_two_nearest_means_by_hand():
    s = torch.tensor([[0.0, 0.0], [0.0, 4.0], [4.0, 4.0]])
    b = pad([(s, np.asarray([0, 1, 3]), torch.tensor([[3.9, 0.1]]))], [(2, 2)], [0])
    # First primitives: 0 at (0, 2), 1 at (4, 4). Second: 0 at (0, 0), 1 at (2, 4).
    first, second = axes_of(b)
    torch.testing.assert_close(first.prototypes()[0], torch.tensor([[0.0, 2.0], [4.0, 4.0]]))
    torch.testing.assert_close(second.prototypes()[0], torch.tensor([[0.0, 0.0], [2.0, 4.0]]))
    m = nn.ModuleDict({"backbone": nn.Identity(), "first": nn.ModuleDict(), "second": nn.ModuleDict()})
    assert PairProtoNet().head(m, b)[0, 0].argmax() == 1 * 2 + 0  # (1, 0): a pair that the support does not have


def test_a_pair_method_refuses_one_axis_tasks(patches):
    with pytest.raises(Mismatch, match="use the rule pairs"):
        PairProtoNet().meta_fit(NWay(patches.train, 3, 2, 2))


def test_selection_is_by_the_harmonic_mean():
    """The score that training maximises is HM on validation tasks, as `evaluate` computes it."""
    rule = Pairs(grid(full(6, 6), size=16).test, primitives=3, queries=2)
    learner = PairProtoNet(net="pixels").untrained((16, 16, 3))
    schedule = Schedule(validate_tasks=40, seed=3)
    found = learner.method.selection_score(learner, rule, schedule)
    from handful.runs.evaluate import evaluate
    from handful.tasks.random import subseed

    run = evaluate(learner, rule, n=40, seed=subseed(3, "valid"))
    assert found == pytest.approx(run.estimate("hm").value, abs=1e-6)


# refined-ProtoNet


def constant(n_in: int, n_out: int, value: float) -> nn.Linear:
    layer = nn.Linear(n_in, n_out)
    nn.init.zeros_(layer.weight)
    nn.init.constant_(layer.bias, value)
    return layer


def test_feature_selection_by_hand():
    """Eq. 5 with h the identity: σ(max + mean) ⊗ mean."""
    maps = torch.tensor([[[1.0, 3.0]], [[-2.0, 0.0]]])[None]  # two channels of 1 x 2
    out = select(nn.Identity(), maps)[0]
    sigma = 1 / (1 + np.exp(-np.asarray([3.0 + 2.0, 0.0 - 1.0])))
    np.testing.assert_allclose(out, sigma * [2.0, -1.0], rtol=1e-6)


def test_description_mixing_by_hand():
    """Eq. 2-3: weights 1/(1+exp(-σ(h1(w')))) and their complement, of the prototype and of ReLU(h0(w))."""
    m = nn.ModuleDict({"h0": nn.Identity(), "h1": nn.Identity()})
    v, w = torch.tensor([10.0, 10.0]), torch.tensor([2.0, -1.0])
    mapped = np.asarray([2.0, 0.0])
    inner = 1 / (1 + np.exp(-mapped))
    a = 1 / (1 + np.exp(-inner))
    np.testing.assert_allclose(DescriptionMixing().mix(m, v, w), a * 10 + (1 - a) * mapped, rtol=1e-6)
    assert (a > 0.5).all() and (a < 0.7311).all()
    single = 1 / (1 + np.exp(-mapped))
    mixed = DescriptionMixing(gate="single").mix(m, v, w)
    np.testing.assert_allclose(mixed, single * 10 + (1 - single) * mapped, rtol=1e-6)


def test_refined_with_an_open_gate_is_protonet_scaled():
    """h = 0 weighs every channel by 1/2: distances are a quarter of ProtoNet's on pooled maps."""
    method = make("refined-protonet", net="conv4:filters=4")
    learner, rule = method.untrained((16, 16, 3)), Pairs(grid(full(5, 5)).test, primitives=3)
    for axis in ("first", "second"):
        learner.modules[axis]["h"] = nn.Sequential(constant(4, 4, 0.0))
    plain = PairProtoNet(net="conv4:filters=4,pool=1", temperature=4.0).untrained((16, 16, 3))
    plain.modules["backbone"].load_state_dict(learner.modules["backbone"].state_dict())
    task = rule.read(rule.draw(0, 0))
    got, wanted = (x.fit(task.support).predict(task.query) for x in (learner, plain))
    np.testing.assert_allclose(got, wanted, atol=1e-4)


def test_words_must_have_the_length_the_method_learned_from(tmp_path):
    collection = grid(full(5, 5))
    names = [f"t{i:02d}" for i in range(5)] + [f"o{i:02d}" for i in range(5)]
    for width in (3, 5):
        lines = (f"{n} {' '.join(str(i + j) for j in range(width))}\n" for i, n in enumerate(names))
        (tmp_path / f"{width}.txt").write_text("".join(lines))
    method = RefinedProtoNetWords(net="conv4:filters=4", schedule=Schedule(steps=1))
    learner = method.meta_fit(Pairs(collection.test, primitives=3, words=str(tmp_path / "3.txt")))
    assert learner.method.width == 3
    learner.save(tmp_path / "model")
    from handful.methods.contract import load

    rule = Pairs(collection.test, primitives=3, words=str(tmp_path / "3.txt"))
    task = rule.read(rule.draw(0, 0))
    again = load(tmp_path / "model").fit(task.support).predict(task.query)
    np.testing.assert_array_equal(again, learner.fit(task.support).predict(task.query))
    rule = Pairs(collection.test, primitives=3, words=str(tmp_path / "5.txt"))
    task = rule.read(rule.draw(0, 0))
    with pytest.raises(Mismatch, match="have 5 numbers, the method learned from 3"):
        learner.fit(task.support).predict(task.query)


# CGE


def test_a_row_normalised_graph_leaves_a_constant_vector_unchanged():
    adjacency = row_normalised(pair_graph(3, 4))
    x = torch.full((3 + 4 + 12, 2), 7.0)
    torch.testing.assert_close(propagate(adjacency, x), x)
    torch.testing.assert_close(propagate(row_normalised(pair_graph(3, 4).to_sparse()), x), x)
    b = tasks()
    graph = PairGraph.of(b, torch.randn(2, 3, 4), torch.randn(2, 3, 4))
    out = propagate(graph.adjacency, torch.ones(2, graph.nodes.shape[1], 1))
    assert set(out.flatten().tolist()) <= {1.0, 0.0} or torch.allclose(out[out > 0], torch.ones(()))


def test_pair_graph_edges_by_hand():
    a = pair_graph(2, 3)
    pair = 2 + 3 + (1 * 3 + 2)
    assert a[pair].nonzero()[:, 0].tolist() == [1, 2 + 2, pair]
    assert a[0].sum() == 1 + 3 + 3 and a[2].sum() == 1 + 2 + 2
    assert torch.equal(a, a.T)


def test_pair_nodes_start_from_the_mean_of_their_primitives():
    b = tasks(((2, 3),))
    first, second = torch.randn(1, 2, 4), torch.randn(1, 3, 4)
    graph = PairGraph.of(b, first, second)
    for c in range(6):
        torch.testing.assert_close(graph.nodes[0, graph.pairs[0, c]], (first[0, c // 3] + second[0, c % 3]) / 2)


def test_cge_does_not_know_which_pairs_exist():
    """Its graph depends on the shape alone: all N x N pairs are nodes."""
    b = tasks(((3, 3),))
    other = tasks(((3, 3),), seed=1)
    other.y = (b.y + 1) % 9
    first, second = torch.randn(1, 3, 4), torch.randn(1, 3, 4)
    torch.testing.assert_close(PairGraph.of(b, first, second).adjacency, PairGraph.of(other, first, second).adjacency)
    assert PairGraph.of(b, first, second).nodes.shape[1] == 3 + 3 + 9


def test_cge_scores_an_image_by_its_product_with_pair_embeddings_of_unit_length():
    """The public graph network, written out for one task in numpy: two layers, then F.normalize."""
    b = tasks(((3, 3),))
    method = CGE(hidden=5, dim=4)
    graph = PairGraph.of(b, torch.randn(1, 3, b.s.shape[-1]), torch.randn(1, 3, b.s.shape[-1]))
    p = method.start(b, graph)
    a, h = graph.adjacency[0].numpy(), graph.nodes[0].numpy()
    for name in ("g1", "g2"):
        h = a @ (h @ p[f"{name}.w"][0].numpy()) + p[f"{name}.b"][0].numpy()
        h = np.maximum(h, 0) if name == "g1" else h
    h = h[6:] / np.linalg.norm(h[6:], axis=1, keepdims=True)
    image = b.q[0].numpy() @ p["image.w"][0].numpy() + p["image.b"][0].numpy()
    np.testing.assert_allclose(method.scores(p, b, graph)[0, :, :9], image @ h.T, rtol=1e-4, atol=1e-5)


# SymNet


def planted(n: int = 3):
    """Representations whose first n numbers switch attributes on, transformations that switch them on and off."""
    own = torch.tensor([[0, 1, 2, 1]])
    f = torch.cat([F.one_hot(own[0], n).float(), torch.randn(4, 2)], 1)[None]

    def set_to(value: float):
        def apply(x, which):
            x = x.expand(-1, -1, n if which is None else x.shape[2], -1).clone()
            for a in range(n):
                if which is None:
                    x[:, :, a, a] = value
                else:
                    x[..., a] = torch.where((which == a)[..., None], torch.tensor(value), x[..., a])
            return x

        return apply

    used = torch.ones(1, 4, dtype=torch.bool)
    return Moved.of(f, own, torch.tensor([n]), used, set_to(1.0), set_to(0.0))


def test_symnet_axioms_vanish_for_a_planted_group():
    """Attributes that are switches: adding what is there, removing what is not, undoing and swapping change nothing."""
    moved = planted()
    assert float(moved.symmetry()) == 0
    assert float(moved.axioms()) == 0
    assert float(moved.triplets(margin=0.5)) == 0  # own: 0 - 1 + 0.5 < 0, others: 0 - 1 + 0.5 < 0
    assert float(moved.triplets(margin=1.5)) == pytest.approx(2 * 0.5)


def test_the_public_codes_commutativity_does_not_vanish():
    moved = planted()
    assert float(moved.axioms(slip=True)) > 0.5  # T- A T- B lacks the image's own attribute


def test_the_public_code_differs_in_commutativity_alone():
    """`MSELoss` of DirtyHarryLYL/SymNet is a mean over the images in every release, so twice the images are no greater loss."""
    b = tasks()
    plain, public = (SymNet(rep=5, hidden=6, public_code=code) for code in (False, True))
    c = plain.context(b)
    p = plain.start(b, c)
    losses = [float(m.losses(p, b, c).sum()) for m in (plain, public)]
    slips = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Moved, "axioms", lambda moved, slip=False: slips.append(slip) or moved.symmetry() * 0)
        without = [float(m.losses(p, b, c).sum()) for m in (plain, public)]
    assert slips == [False, True]
    assert without[0] == without[1] and losses[0] != losses[1]


def test_symnet_losses_do_not_vanish_for_other_transformations():
    moved = planted()
    swapped = Moved.of(moved.f, moved.own, torch.tensor([3]), moved.used, moved.decouple, moved.couple)
    assert float(swapped.symmetry()) == pytest.approx(2.0)  # own attribute lost, other gained: distance 1 each
    assert float(swapped.triplets(0.5)) == pytest.approx(2 * 1.5)


def test_relative_moving_distance_reads_off_planted_attributes():
    moved = planted()
    rmd = moved.to_minus - moved.to_plus
    assert rmd.argmax(-1).tolist() == moved.own.tolist()


# training on each task


SMALL = {
    "baseline++": make("pair-baseline++", passes=2),
    "visualprod": VisualProd(hidden=6, iterations=3),
    "redwine": RedWine(hidden=6, iterations=3),
    "cge": CGE(hidden=5, dim=4, iterations=3),
    "symnet": SymNet(rep=5, hidden=6, iterations=3),
    "cge-words": make("cge-words", hidden=5, iterations=3),
    "symnet-words": make("symnet-words", rep=5, hidden=6, iterations=3),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_task_trains_alone_as_in_company(name):
    b = tasks(words=7 if "words" in name else 0)
    m = nn.ModuleDict({"backbone": nn.Identity(), "first": nn.ModuleDict(), "second": nn.ModuleDict()})
    together = SMALL[name].head(m, b)
    for t, (n1, n2) in enumerate(b.shapes):
        own = SMALL[name].head(m, alone(b, t))[0]
        torch.testing.assert_close(together[t, : len(own), : n1 * n2], own, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["visualprod", "cge", "symnet", "redwine"])
def test_training_on_a_task_lowers_its_loss(name):
    from dataclasses import replace

    method, b = replace(SMALL[name], iterations=60, rate=1e-2), tasks()
    c = method.context(b)
    p = method.start(b, c)
    with torch.no_grad():
        before = method.losses(p, b, c)
    after = method.losses(method.descend(p, lambda x: method.losses(x, b, c)), b, c)
    assert (after < before - 0.05).all()


def test_stacked_adam_is_torchs_adam_on_each_task():
    """VisualProd's classifiers against two plain torch networks with the same start."""
    b = tasks(((2, 3),))
    method = VisualProd(hidden=6, iterations=20)
    params = method.start(b, None)
    nets = []
    for axis in range(2):
        net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, b.shapes[0][axis]))
        with torch.no_grad():
            for layer, name in ((net[0], f"axis{axis}.1"), (net[2], f"axis{axis}.2")):
                layer.weight.copy_(params[f"{name}.w"][0].T)
                layer.bias.copy_(params[f"{name}.b"][0, 0])
        nets.append(net)
    optimiser = torch.optim.Adam([p for n in nets for p in n.parameters()], 1e-3, weight_decay=5e-4)
    y = axis_labels(b.y[0], 3)
    for _ in range(20):
        optimiser.zero_grad()
        sum(F.cross_entropy(n(b.s[0]), y[i]) for i, n in enumerate(nets)).backward()
        optimiser.step()
    wanted = [F.log_softmax(n(b.q[0]), -1) for n in nets]
    got = method.head(nn.ModuleDict(), b)[0]
    torch.testing.assert_close(
        got, (wanted[0][:, :, None] + wanted[1][:, None]).flatten(1).detach(), atol=1e-5, rtol=1e-4
    )


def test_learned_norms_are_trained_with_the_backbone_and_belong_to_classes():
    rule = Pairs(grid(full(4, 5)).test, primitives=3)
    method = make("pair-baseline++", net="conv4:filters=4", **{"schedule.steps": 3})
    before, learner = method.untrained(rule.image_shape, rule.n_classes), method.meta_fit(rule)
    for axis, n in (("first", 4), ("second", 5)):
        norm = learner.modules[axis]["classifier"].norm
        assert norm.shape == (n,)
        start = before.modules[axis]["classifier"].norm
        assert start.shape != norm.shape or (norm != start).all()


def test_redwine_never_teaches_an_unseen_pair_to_be_absent():
    """The loss does not change when an unseen pair's classifier does."""
    b = tasks(((2, 2),))
    method = RedWine(hidden=6)
    seen = set(b.y[0].tolist())
    weights = torch.randn(1, 4, 4, requires_grad=True)
    object.__setattr__(method, "compose", lambda p, b: weights)
    method.losses({}, b, None).sum().backward()
    for pair in range(4):
        assert bool(weights.grad[0, pair].abs().sum() > 0) == (pair in seen)


def test_initial_weights_do_not_depend_on_company():
    b = tasks()
    p, q = {}, {}
    Noise(b).linear("x", 4, [2, 3], p)
    Noise(alone(b, 0)).linear("x", 4, [2], q)
    torch.testing.assert_close(p["x.w"][:1, :, :2], q["x.w"])
    assert (p["x.w"][0, :, 2] == 0).all()
    assert linear(p, "x", b.s).shape == (*b.s.shape[:2], 3)


@pytest.mark.learning
def test_unseen_pairs_are_recognised_on_separable_features():
    """Two halves of the features, one a primitive: unseen pairs are named far above chance (1/16).

    SymNet reads the first primitive off almost perfectly; its object loss weighs a tenth, so pairs are not asked of it.
    """
    from handful.data.collection import Card, Collection, as_table
    from handful.runs.evaluate import evaluate

    rng = np.random.default_rng(0)
    a, b = np.meshgrid(np.arange(6), np.arange(6), indexing="ij")
    pair = np.repeat(np.arange(36), 12)
    x = np.concatenate([np.eye(6)[a.ravel()[pair]], np.eye(6)[b.ravel()[pair]]], 1) * 3 + rng.normal(0, 0.2, (432, 12))
    table = as_table(
        {"a": [f"a{i}" for i in a.ravel()[pair]], "b": [f"b{i}" for i in b.ravel()[pair]], "s": ["test"] * 432}
    )
    card = Card("halves", "features", (12,), ("a", "b"), schemes=("s",), hash="0" * 64)
    rule = Pairs(Collection(card, table, x.astype(np.float32)).test, primitives=4)
    for name, options in (
        ("pair-protonet", {}),
        ("visualprod", {"hidden": 32, "rate": 1e-2}),
        ("cge", {"hidden": 32, "rate": 1e-2}),
        ("symnet", {"rep": 16, "hidden": 16}),
    ):
        learner = make(name, net="pixels", **options).untrained((12,))
        run = evaluate(learner, rule, n=24)
        column, least = ("p1_unseen", 0.6) if name == "symnet" else ("unseen", 1 / 16)
        decide(run.estimate(column), above=least, what=name)


def test_protonet_itself_is_untouched_by_lifting():
    assert PairProtoNet.of is ProtoNet and PairProtoNet(temperature=2.0).one == ProtoNet(temperature=2.0)
