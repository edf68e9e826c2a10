"""RelationNet and ANIL, the one-axis methods that compositional tables need."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from handful.methods.batch import pad
from handful.methods.contract import make
from handful.methods.gradient.anil import ANIL
from handful.methods.gradient.maml import MAML
from handful.methods.metric.relationnet import Relation, RelationNet
from handful.tasks.nway import NWay


def test_the_relation_of_a_split_convolution_is_that_of_the_concatenation():
    relation = Relation((3, 5, 5), 4, 8).eval()
    classes, queries = torch.randn(2, 3, 5, 5), torch.randn(3, 3, 5, 5)
    both = torch.cat([classes[[1, 0]], queries[[0, 2]]], 1)
    weight = torch.cat([relation.of_class.weight, relation.of_query.weight], 1)
    x = F.conv2d(both, weight, relation.of_class.bias, padding=1)
    wanted = relation.last(relation.second(relation.first(x)).flatten(1))[:, 0]
    got = relation(classes, queries, torch.tensor([1, 0]), torch.tensor([0, 2]))
    torch.testing.assert_close(got, wanted)


def maps_batch():
    g = torch.Generator().manual_seed(0)
    a = (torch.randn(3, 4, 2, 2, generator=g), np.asarray([0, 1, 1]), torch.randn(2, 4, 2, 2, generator=g))
    b = (torch.randn(3, 4, 2, 2, generator=g), np.asarray([0, 1, 2]), torch.randn(3, 4, 2, 2, generator=g))
    return pad([a, b], [(2,), (3,)], [0, 1])


class FakeBackbone(torch.nn.Module):
    map_shape = (4, 2, 2)


def test_relation_loss_by_hand_and_padding_left_out():
    """(r - [same])² averaged over real (query, class); batch norm in training mode sees no padding."""
    method, b = RelationNet(filters=4), maps_batch()
    m = torch.nn.ModuleDict(method.extras(FakeBackbone(), 2))
    m.train()
    labels = torch.tensor([[0, 1, -2], [2, 0, 1]])
    loss = method.task_loss(m, b, labels)
    protos = [torch.stack([b.s[0, 0], b.s[0, 1] + b.s[0, 2]]), b.s[1]]
    classes = torch.cat(protos)
    queries = torch.cat([b.q[0, :2], b.q[1]])
    c = torch.tensor([0, 1] * 2 + [2, 3, 4] * 3)
    q = torch.tensor([0, 0, 1, 1] + [2, 2, 2, 3, 3, 3, 4, 4, 4])
    r = torch.sigmoid(m["relation"](classes, queries, c, q))
    same = torch.tensor([1, 0, 0, 1] + [0, 0, 1, 1, 0, 0, 0, 1, 0]).float()
    torch.testing.assert_close(loss, (r - same).square().mean())


def test_mean_pooling_does_not_depend_on_the_number_of_equal_shots():
    x = torch.randn(2, 4, 2, 2)
    once = pad([(x, np.asarray([0, 1]), x)], [(2,)], [0])
    twice = pad([(torch.cat([x, x]), np.asarray([0, 1, 0, 1]), x)], [(2,)], [0])
    for pool, equal in (("mean", True), ("sum", False)):
        method = RelationNet(filters=4, pool=pool)
        torch.manual_seed(0)
        m = torch.nn.ModuleDict(method.extras(FakeBackbone(), 2)).eval()
        assert torch.allclose(method.head(m, once), method.head(m, twice), atol=1e-6) == equal


def test_anil_adapts_the_last_layer_alone(patches):
    learner = ANIL(net="conv4:filters=4", test_steps=3).untrained((16, 16, 3))
    rule = NWay(patches.test, 3, 2, 2)
    task = rule.read(rule.draw(0, 0))
    adapted = learner.fit(task.support).params
    start = learner.initial(3)
    for name, value in adapted.items():
        assert torch.equal(value, start[name]) == (not name.startswith("last")), name


def test_anil_is_maml_with_a_frozen_inner_backbone(patches):
    """The same numbers as MAML told to adapt only the last layer, although the support is embedded once."""

    class Slow(MAML):
        def adapted(self, names):
            return [n for n in names if n.startswith("last")]

    rule = NWay(patches.test, 3, 2, 2)
    two = [rule.read(e) for e in rule.draw_block(0, 0, 2)]
    options = {"net": "conv4:filters=4", "inner_steps": 2, "test_steps": 2}
    learners = [cls(**options).untrained((16, 16, 3)) for cls in (ANIL, Slow)]
    # Gradients, not trained weights: Adam blows rounding up where a gradient is zero (a bias before batch norm).
    grads = []
    for learner in learners:
        learner.modules.train()
        learner.outer_loss(two, torch.Generator().manual_seed(0)).backward()
        grads.append({n: p.grad for n, p in learner.modules.named_parameters()})
        learner.modules.eval()
    for name, value in grads[0].items():
        torch.testing.assert_close(value, grads[1][name], atol=1e-5, rtol=1e-3)
    got, wanted = (x.fit(two[0].support).predict(two[0].query) for x in learners)
    np.testing.assert_allclose(got, wanted, atol=1e-4)


def test_pair_maml_adapts_both_last_layers():
    from handful.tasks.pairs import Pairs
    from made.grids import full, grid

    rule = Pairs(grid(full(4, 5)).test, primitives=3, shots=2, queries=2)
    learner = make("pair-maml", net="conv4:filters=4", test_steps=1).untrained((16, 16, 3))
    task = rule.read(rule.draw(0, 0))
    predictor = learner.fit(task.support)
    scores = predictor.predict(task.query)
    assert scores.shape == (len(task.query), 9)
    np.testing.assert_allclose(np.exp(scores).sum(1), 1, atol=1e-5)
    for axis in range(2):
        assert not torch.equal(predictor.params[f"last.{axis}.weight"], learner.initial((3, 3))[f"last.{axis}.weight"])
