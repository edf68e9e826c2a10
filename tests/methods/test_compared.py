"""Numbers that public codes gave on weights and inputs that both sides can write down: sines."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from handful import registry
from handful.cli.listing import methods
from handful.methods.batch import Batch, pad
from handful.methods.compared import comparisons
from handful.methods.gradient.r2d2 import R2D2
from handful.methods.metric.gnn import GNN, EdgeNetwork
from handful.methods.metric.relationnet import Relation, RelationNet
from handful.methods.selfsupervised.hts import TreeGates

FAMILIES = ("finetuning", "gradient", "metric", "selfsupervised", "crossdomain", "causal")
ZOO = Path(__file__).parents[2] / "docs" / "methods-zoo.md"


def wave(*shape: int, k: int = 0) -> Tensor:
    return torch.sin(torch.arange(math.prod(shape)) * 0.7 + k).reshape(shape)


def filled(parameters: list[Tensor]) -> None:
    for k, p in enumerate(parameters):
        p.data.copy_(0.4 * wave(*p.shape, k=k))


def one_task(s: Tensor, y: list[int], q: Tensor, n: int) -> Batch:
    return pad([(s, np.asarray(y), q)], [(n,)], [0])


@pytest.mark.parametrize(
    "shots, scores",
    [
        (1, [[-0.0405557, 0.7308263], [0.5674514, -0.0380416]]),
        (3, [[0.1896191, 0.4254138], [0.4607912, 0.2062355]]),
    ],
)
def test_r2d2_weighs_its_penalty_per_image_as_the_public_code_does(shots, scores):
    """`rr_woodbury` (1 shot) and `rr_standard` (3) of bertinetto/r2d2 at fc0c13e, λ = 0.5."""
    method = R2D2(penalty=0.5, scale=1.0, per_image=True)
    b = one_task(wave(2 * shots, 4), [0] * shots + [1] * shots, wave(2, 4, k=9), 2)
    found = method.head(torch.nn.ModuleDict(method.extras(torch.nn.Identity(), 2)), b)
    assert found[0].detach().numpy() == pytest.approx(np.array(scores), abs=1e-5)


@pytest.mark.parametrize(
    "training, scores",
    [
        (True, [[-1.6026083, -0.5565817], [0.4607155, 0.0317313]]),
        (False, [[-1.3403779, -0.5748818], [0.6506462, -0.4718969]]),
    ],
)
def test_gnn_is_the_public_graph(training, scores):
    """`GNN_nl` of vgsatorras/few-shot-gnn at 6ad1563 with 6 features and 4 hidden units; two classes, two shots."""
    graph = EdgeNetwork(6 + 2, 4, 2).train(training)
    rounds = zip(graph.edges, [*graph.convolutions, graph.last], strict=True)
    layers = [layer for e, c in rounds for layer in (*e.layers, e.last, c.linear)]
    filled([p.view(-1) for layer in layers for p in (layer.weight, layer.bias)])
    method = GNN(ways=2)
    b = one_task(wave(4, 6), [0, 0, 1, 1], wave(1, 2, 6, k=5)[0], 2)
    ((_, mine, hot),) = method.groups(b)
    found = graph(*method.graphs(b.s, b.q, torch.ones(1, 2, dtype=torch.bool), mine, hot))[:, 0]
    assert found.detach().numpy() == pytest.approx(np.array(scores), abs=2e-5)


def test_relations_are_the_public_ones():
    """`RelationModule` of wyharveychen/CloserLookFewShot at e03aca8 in training mode: two classes, two shots, maps of 4x4."""
    relation = Relation((2, 4, 4), 2, 3)
    joint = torch.empty(2, 4, 3, 3)
    second, last = relation.second[0], relation.last
    filled(
        [joint, relation.of_class.bias, second.weight, second.bias]
        + [p for layer in (last[0], last[2]) for p in (layer.weight, layer.bias)]
    )
    relation.of_class.weight.data.copy_(joint[:, :2])
    relation.of_query.weight.data.copy_(joint[:, 2:])
    b = one_task(wave(4, 2, 4, 4), [0, 0, 1, 1], wave(2, 2, 4, 4, k=3), 2)
    found = torch.sigmoid(RelationNet(pool="mean").relations(torch.nn.ModuleDict({"relation": relation}), b))[0]
    public = [[0.6522872, 0.6456634], [0.6341424, 0.6339446]]
    assert found.detach().numpy() == pytest.approx(np.array(public), abs=1e-5)


def test_the_tree_of_hts_is_the_public_one():
    """`TreeLSTM` of remiMZ/HTS-ECCV22 at 8fd62bb over a root and three leaves."""
    gates = TreeGates(2)
    filled(
        [
            gates.from_node.weight,
            gates.from_node.bias,
            gates.from_children.weight,
            gates.forget_node.weight,
            gates.forget_node.bias,
            gates.forget_child.weight,
        ]
    )
    root, leaves = gates(wave(1, 2), wave(1, 3, 2, k=4))
    public = [[-0.1985642, -0.1094745], [-0.0180653, -0.2116927], [-0.0159126, -0.1689727], [-0.1208666, 0.0289284]]
    assert torch.cat([root, leaves[0]]).detach().numpy() == pytest.approx(np.array(public), abs=1e-6)
    # The same unit over a tree of two levels: the root and its two turns, each with three permutations.
    root, turns, _ = gates(wave(1, 2), wave(1, 2, 2, k=4), wave(1, 2, 3, 2, k=7))
    public = [[-0.3328615, -0.1571241], [-0.2351542, -0.2942878], [-0.1726900, -0.2354782]]
    assert torch.cat([root, turns[0]]).detach().numpy() == pytest.approx(np.array(public), abs=1e-6)


def as_markdown(names: list[str]) -> str:
    """The table of the docs, and the methods among ``names`` that were not compared."""
    found = comparisons()
    lines = [
        "| method | public code | commit | what was compared | largest difference | beside that |",
        "|---|---|---|---|---|---|",
    ]
    for name, c in sorted(found.items()):
        lines.append(f"| `{name}` | {c.code} | {c.commit} | {c.what} | {c.within:.0e} | {c.but} |")
    rest = ", ".join(f"`{name}`" for name in names if name not in found)
    return "\n".join(lines) + f"\n\nNot compared with a public code by running both: {rest}.\n"


def test_the_zoo_shows_what_was_compared():
    names = [row["name"] for row in methods({"setting": "few-shot"}) if row["family"] in FAMILIES]
    assert as_markdown(names) in ZOO.read_text(encoding="utf-8")


def test_comparisons_are_of_methods_that_exist():
    assert set(comparisons()) <= set(registry.names("methods"))
    assert all(c.code.count("/") == 1 and len(c.commit) == 7 and 0 < c.within < 0.1 for c in comparisons().values())
