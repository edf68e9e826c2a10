"""IFSL's adjustments against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from handful.errors import BadInput
from handful.methods.causal.ifsl import IFSLMAML, IFSLMTL, IFSLSIB, IFSLMatchingNet, Start, class_means
from handful.methods.gradient.mtl import MTL
from handful.methods.gradient.sib import SIB
from handful.methods.metric.matchingnet import MatchingNet
from handful.methods.pieces.stages import only
from handful.methods.schedule import Schedule
from handful.tasks.nway import NWay

from .helpers import NOISY, batch_of, padded_is_alone, random_task

ALL = [IFSLMatchingNet, IFSLMAML, IFSLMTL, IFSLSIB]


@pytest.mark.parametrize("kind", ALL, ids=lambda k: k.name)
@pytest.mark.parametrize("adjustment", ["feature", "class", "combined"])
def test_padding_changes_no_answer(kind, adjustment):
    padded_is_alone(kind(adjustment=adjustment))


def filled(method, seed=0):
    """Modules with knowledge and a classifier that are not nothing."""
    m = method.untrained((32, 32, 3), 5).modules
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        m["knowledge"].means.copy_(torch.randn(5, m["knowledge"].means.shape[1], generator=generator) * 0.1)
    return m


def reference(m, x, n, adjustment):
    """The ten lines: groups of unit length, the class average beside each."""
    unit = lambda z: z / np.linalg.norm(z, axis=-1, keepdims=True)  # noqa: E731
    means = m["knowledge"].means.numpy()
    whole = unit(unit(x) - means.mean(0))
    logits = x @ m["classifier"].weight.detach().numpy().T + m["classifier"].bias.detach().numpy()
    p = np.exp(logits - logits.max(-1, keepdims=True))
    seen = (p / p.sum(-1, keepdims=True)) @ means
    out = []
    for own, near in zip(np.split(whole, n, -1), np.split(seen, n, -1), strict=True):
        out.append(unit(own) if adjustment == "feature" else np.concatenate([unit(own), near], -1))
    return np.stack(out)


@pytest.mark.parametrize(("adjustment", "n"), [("feature", 8), ("class", 1), ("combined", 8)])
def test_adjusted_features_are_numpys(adjustment, n):
    method = IFSLMatchingNet(net="conv4:filters=16", adjustment=adjustment)
    m = filled(method)
    x = torch.randn(3, 4, 64)
    with torch.no_grad():
        got = method.adjusted(m, x).numpy()
    assert got == pytest.approx(reference(m, x.numpy(), n, adjustment), abs=1e-5)


def test_the_answer_is_the_mean_of_the_groups_probabilities():
    method = IFSLMatchingNet(net="conv4:filters=16")
    m = filled(method)
    s, y, q = random_task(0, (64,), ways=3, shots=2)
    with torch.no_grad():
        got = method.head(m, batch_of((s, y, q)))[0].softmax(-1).numpy()
        groups = [
            MatchingNet().head(torch.nn.ModuleDict(), batch_of((a, y, b)))[0].softmax(-1).numpy()
            for a, b in zip(method.adjusted(m, s), method.adjusted(m, q), strict=True)
        ]
    assert got == pytest.approx(np.mean(groups, 0), abs=1e-5)
    logs = method.with_options(average="log").head(m, batch_of((s, y, q)))[0].softmax(-1).detach().numpy()
    product = np.exp(np.mean(np.log(groups), 0))
    assert logs == pytest.approx(product / product.sum(-1, keepdims=True), abs=1e-5)


def test_one_group_without_knowledge_is_the_plain_method():
    method = IFSLMatchingNet(net="conv4:filters=16", adjustment="feature", splits=1)
    m = method.untrained((32, 32, 3), 5).modules
    b = batch_of(random_task(1, (64,), ways=4, shots=2))
    with torch.no_grad():
        torch.testing.assert_close(
            method.head(m, b).softmax(-1), MatchingNet().head(m, b).softmax(-1), atol=1e-5, rtol=1e-5
        )


@pytest.mark.parametrize(("kind", "plain"), [(IFSLMAML, Start()), (IFSLMTL, MTL()), (IFSLSIB, SIB(rate=0.1))])
def test_one_group_without_knowledge_is_the_plain_learner_on_unit_features(kind, plain):
    options = {"rate": 0.1} if kind is IFSLSIB else {}
    method = kind(net="conv4:filters=16", adjustment="feature", splits=1, **options)
    m = method.untrained((32, 32, 3), 5).modules
    part = m["parts"][0]
    with torch.no_grad():
        for p in part.parameters():
            p.add_(0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(0)))
        s, y, q = random_task(1, (64,), ways=4, shots=2)
        unit = batch_of((torch.nn.functional.normalize(s, dim=-1), y, torch.nn.functional.normalize(q, dim=-1)))
        got = method.head(m, batch_of((s, y, q))).softmax(-1)
        torch.testing.assert_close(got, plain.head(part, unit).softmax(-1), atol=1e-5, rtol=1e-5)


def test_knowledge_is_the_mean_unit_feature_of_each_class():
    train = NWay(NOISY.train, 5, 1, 5)
    learner = IFSLMAML(net="conv4:filters=4", splits=1).untrained(train.image_shape, train.n_classes)
    got = class_means(learner, train)
    rows = train.part.rows[train.part.classes == 3]
    x = torch.nn.functional.normalize(learner.embed(NOISY.read(rows)), dim=1)
    torch.testing.assert_close(got[3], x.mean(0), atol=1e-5, rtol=1e-4)


def test_the_second_stage_leaves_the_backbone_and_its_classifier_alone():
    train = NWay(NOISY.train, 5, 1, 5)
    options = {"net": "conv4:filters=4", "pretrain": Schedule(steps=3, batch=16), "splits": 2}
    short = IFSLMAML(**options, schedule=Schedule(steps=0)).meta_fit(train).state()
    longer = IFSLMAML(**options, schedule=Schedule(steps=3)).meta_fit(train).state()
    moved = {name for name in short if not torch.equal(short[name], longer[name])}
    assert moved and all(name.startswith("parts.") for name in moved)
    assert float(short["knowledge.means"].abs().max()) > 0


def test_groups_must_be_equal():
    with pytest.raises(BadInput, match="equal groups"):
        IFSLMatchingNet(net="conv4:filters=16", splits=7).untrained((32, 32, 3))


@pytest.mark.parametrize("kind", [IFSLMAML, IFSLMTL, SIB, MTL], ids=lambda k: k.name)
def test_a_frozen_backbone_drops_nothing(kind):
    """DropBlock is neither a batch norm nor torch's dropout, and stands still with them."""
    method = kind(net="resnet12:drop=0.5")
    m = method.untrained((32, 32, 3), 5).modules
    x = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    still = m.eval()["backbone"](x)
    only(m, method.first)
    assert not torch.allclose(m.train()["backbone"](x), still, atol=1e-4)
    m = method.untrained((32, 32, 3), 5).modules
    only(m, method.second)
    torch.testing.assert_close(m.train()["backbone"](x), still)
    only(m, method.first)
    assert not torch.allclose(m.train()["backbone"](x), still, atol=1e-4)
