"""Cross-domain additions: nothing when switched off, what they promise when on."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from handful.errors import BadInput
from handful.methods.crossdomain.ata import GNNATA, TPNATA, RelationNetATA, random_convolution
from handful.methods.crossdomain.ft import GNNFT, TPNFT, RelationNetFT, last_norms
from handful.methods.crossdomain.lrp import GNNLRP, RelationNetLRP, explain_convolution, explain_relation
from handful.methods.layers.imagetasks import read
from handful.methods.layers.relevance import (
    log_odds,
    through_convolution,
    through_linear,
    through_mixing,
    through_pooling,
    weights,
)
from handful.methods.metric.gnn import GNN
from handful.methods.metric.relationnet import Relation, RelationNet
from handful.methods.metric.tpn import TPN
from handful.methods.schedule import Schedule
from handful.nets import build
from handful.tasks.nway import NWay
from made.zoo import WORLD, batch_of, padded_is_alone, random_task

SMALL = {"net": "conv4:filters=16"}
GRAPH = {**SMALL, "ways": 3, "width": 32, "hidden": 32}
OFF = float("-inf")
PAIRS = [
    (RelationNet(**SMALL), RelationNetFT(**SMALL, gamma=OFF, beta=OFF)),
    (GNN(**GRAPH), GNNFT(**GRAPH, gamma=OFF, beta=OFF)),
    (TPN(**SMALL), TPNFT(**SMALL, gamma=OFF, beta=OFF)),
    (RelationNet(**SMALL), RelationNetATA(**SMALL, ascents=0, plain=1.0)),
    (GNN(**GRAPH), GNNATA(**GRAPH, ascents=0, plain=1.0)),
    (TPN(**SMALL), TPNATA(**SMALL, ascents=0, plain=1.0)),
]


def _id(x):
    return x.name


@pytest.mark.parametrize(("plain", "off"), PAIRS, ids=lambda x: x.name)
def test_switched_off_it_trains_as_the_plain_method(plain, off):
    train = NWay(WORLD.train, 3, 1, 3)
    schedule = Schedule(steps=3, tasks=2)
    a = plain.with_options(schedule=schedule).meta_fit(train).state()
    b = off.with_options(schedule=schedule).meta_fit(train).state()
    assert a.keys() == b.keys()
    for name, value in a.items():
        torch.testing.assert_close(b[name], value, msg=name)


@pytest.mark.parametrize("method", [RelationNetLRP(), GNNLRP(), TPNATA()], ids=_id)
def test_padding_changes_no_answer(method):
    padded_is_alone(method)


def test_the_transformation_has_the_published_spread_in_training_and_none_in_evaluation():
    m = RelationNetFT(net="conv4:filters=512").untrained((32, 32, 3)).modules
    norm = last_norms(m["backbone"])[0]
    x = torch.ones(2, 512, 3, 3)
    with torch.no_grad():
        norm.weight.fill_(1.0)
        norm.eval()
        plain = norm(x)
        torch.testing.assert_close(plain, x, atol=1e-4, rtol=1e-4)
        norm.train()
        torch.manual_seed(0)
        flat = x * 0 + torch.randn(2, 512, 3, 3)
        out = norm(flat)
        normed = F.batch_norm(flat, None, None, training=True)
    scale = (out[0] - out[1]).flatten(1)[:, 0] / (normed[0] - normed[1]).flatten(1)[:, 0]
    shift = (out - scale[:, None, None] * normed).mean((0, 2, 3))
    # the public softplus has sharpness 100: what is set is what is had
    assert float(scale.std()) == pytest.approx(0.3, rel=0.12) and float(scale.mean()) == pytest.approx(1, abs=0.06)
    assert float(shift.std()) == pytest.approx(0.5, rel=0.12) and float(shift.mean()) == pytest.approx(0, abs=0.1)


def test_what_a_residual_block_adds_up_is_transformed_shortcuts_too():
    assert len(last_norms(build("resnet10", (32, 32, 3)))) == 4 + 3
    assert len(last_norms(build("resnet18", (32, 32, 3)))) == 8 + 3
    assert len(last_norms(build("resnet50", (32, 32, 3)))) == 16 + 4
    assert len(last_norms(build("resnet12", (32, 32, 3)))) == 4 + 4
    assert len(last_norms(build("conv4", (32, 32, 3)))) == 4


def images_for(method, seed=0):
    train = NWay(WORLD.train, 3, 1, 3)
    learner = method.untrained(train.image_shape, train.n_classes)
    class_of = {int(r): int(c) for r, c in zip(train.part.rows, train.part.classes, strict=True)}
    tasks = [train.read(train.draw(seed, i)) for i in range(2)]
    return learner, read(learner, tasks, class_of, (), torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("method", [RelationNetATA(**SMALL), GNNATA(**GRAPH), TPNATA(**SMALL)], ids=_id)
def test_the_attack_raises_the_loss(method):
    method = method.with_options(plain=1.0, ascents=0, schedule=Schedule(steps=25, tasks=2, rate=3e-3))
    _, images = images_for(method)
    m = method.meta_fit(NWay(WORLD.train, 3, 1, 3)).modules
    method = method.with_options(ascents=5, ascent_rate=5.0)

    def loss(x):
        with torch.no_grad():
            return float(method.task_loss(m, images.batch(method.embed(m, x)), images.labels))

    harder = method.harder(m, images)
    assert harder.shape == images.x.shape and not torch.equal(harder, images.x)
    assert loss(harder) > loss(images.x)


def test_the_attack_leaves_the_model_in_its_mode_and_without_gradients():
    learner, images = images_for(RelationNetATA(**SMALL))
    m = learner.modules.train()
    before = {k: v.clone() for k, v in m.state_dict().items()}
    RelationNetATA(**SMALL).harder(m, images)
    assert m.training and all(p.grad is None for p in m.parameters())
    for name, value in m.state_dict().items():
        torch.testing.assert_close(value, before[name])


def test_a_random_convolution_keeps_shape_and_is_its_generators():
    x = torch.randn(4, 3, 16, 16)
    a, b = (random_convolution(x, torch.Generator().manual_seed(7)) for _ in range(2))
    assert a.shape == x.shape and torch.equal(a, b)


def test_relevance_is_conserved_where_it_must_be():
    torch.manual_seed(0)
    a, w, r = torch.rand(5, 6).double(), torch.rand(4, 6).double(), torch.rand(5, 4).double()
    z = a @ w.T
    torch.testing.assert_close(through_linear(a, w, r).sum(1), (r * z / (z + 0.01)).sum(1))
    mix = torch.rand(1, 3, 3).double()
    x, rx = torch.rand(1, 3, 2).double(), torch.rand(1, 3, 2).double()
    z = mix @ x
    torch.testing.assert_close(through_mixing(x, mix, rx).sum((1, 2)), (rx * z / (z + 0.01)).sum((1, 2)))
    image, kernel = torch.rand(2, 3, 5, 5).double(), torch.randn(4, 3, 3, 3).double()
    out = torch.rand(2, 4, 5, 5).double()
    torch.testing.assert_close(through_convolution(image, kernel, out, 1).sum((1, 2, 3)), out.sum((1, 2, 3)))
    pooled = torch.rand(2, 3, 3, 3).double()
    torch.testing.assert_close(through_pooling(image, pooled, 2, True).sum((1, 2, 3)), pooled.sum((1, 2, 3)))


def test_relevance_of_a_linear_layer_by_hand():
    a, w = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -1.0], [0.0, 2.0]])
    r = torch.tensor([[1.01, 4.01]])
    # z = (1, 4); shares (3/1.01, -2/1.01) of 1.01 and (0, 4/4.01) of 4.01
    assert through_linear(a, w, r)[0].tolist() == pytest.approx([3.0, 2.0], abs=1e-5)


def test_weights_run_from_nothing_to_twice():
    got = weights(torch.tensor([[2.0, -4.0, 0.0], [0.0, 0.0, 0.0]]), 1)
    assert got.tolist() == [[1.5, 0.0, 1.0], [1.0, 1.0, 1.0]]


def test_log_odds_rise_with_the_score_and_stay_finite():
    got = log_odds(torch.tensor([[100.0, 0.0, float("-inf")]]))[0]
    assert (
        torch.isfinite(got).all()
        and got[0] > got[1]
        and float(log_odds(torch.zeros(1, 4))[0, 0])
        == pytest.approx(float(torch.log(torch.tensor(4 * 0.26 / 0.76))), abs=1e-5)
    )


def test_a_relation_is_explained_by_the_channel_that_makes_it():
    """Only one channel of the class map has weight: it gets all relevance."""
    torch.manual_seed(0)
    relation = Relation((3, 4, 4), 2, 2).eval()
    with torch.no_grad():
        for p in relation.parameters():
            p.abs_()
        relation.of_query.weight.zero_()
        relation.of_class.weight[:, 1:] = 0
        c, q = explain_relation(relation, torch.rand(2, 3, 4, 4), torch.rand(2, 3, 4, 4), torch.ones(2))
    assert float(q.abs().max()) == 0 and float(c[:, 1:].abs().max()) == 0 and float(c[:, 0].sum()) > 1.5


def test_a_graph_convolution_sends_relevance_along_its_edges():
    x = torch.tensor([[[1.0], [3.0]]])
    edges = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    r = explain_convolution(torch.tensor([[0.0, 1.0]]), x, edges, torch.tensor([[[2.0], [0.0]]]))
    assert r[0, :, 0].tolist() == pytest.approx([0.0, 2.0], abs=0.02)


def test_guidance_is_half_at_one_shot_and_whole_above():
    one, more = batch_of(random_task(0, (2,), shots=1)), batch_of(random_task(0, (2,), shots=3))
    assert GNNLRP().weight_of(one) == 0.5 and GNNLRP().weight_of(more) == 1.0
    assert GNNLRP(guidance=0.2).weight_of(more) == 0.2


def test_unsound_options_are_refused():
    with pytest.raises(BadInput, match="plain"):
        TPNATA(plain=2.0)
    with pytest.raises(BadInput, match="ways"):
        GNNATA(ways=1)
