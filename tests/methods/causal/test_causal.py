"""IFSL's adjustments against numpy."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from handful.errors import BadInput
from handful.methods.causal.ifsl import IFSLMAML, IFSLMTL, IFSLSIB, IFSLMatchingNet, Start, class_means
from handful.methods.contract import load
from handful.methods.gradient.mtl import MTL
from handful.methods.gradient.sib import SIB
from handful.methods.metric.matchingnet import MatchingNet
from handful.methods.schedule import Schedule
from handful.methods.stages import only
from handful.tasks.nway import NWay
from made.zoo import NOISY, batch_of, padded_is_alone, random_task

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
    method = IFSLMatchingNet(net="conv4:filters=16", adjustment=adjustment, features="centred", splits=8)
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


@pytest.mark.parametrize(
    ("kind", "groups", "average", "centred"),
    [
        (IFSLMAML, 8, "log", False),
        (IFSLMatchingNet, 16, "probability", False),
        (IFSLMTL, 8, "log", True),
        (IFSLSIB, 4, "log", True),
    ],
)
def test_groups_averages_and_features_are_the_public_codes(kind, groups, average, centred):
    method = kind(net="conv4:filters=16")
    m = filled(method)
    x = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        got = method.adjusted(m, x)
    assert len(got) == len(m["parts"]) == groups and method.average == average
    own = got[..., : 64 // groups]
    if centred:
        torch.testing.assert_close(own.norm(dim=-1), torch.ones(groups, 2, 5))
    else:
        torch.testing.assert_close(torch.cat(list(own), -1), x)


def test_mamls_groups_descend_as_torch_does():
    """Linear, ReLU, linear, linear: 20 steps of SGD at 0.01 on the support, scores times five."""
    method = IFSLMAML(net="conv4:filters=16", adjustment="feature", splits=1)
    m = method.untrained((32, 32, 3), 5).modules
    part = m["parts"][0]
    s, y, q = random_task(1, (64,), ways=4, shots=2)
    net = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 64), torch.nn.Linear(64, 4))
    with torch.no_grad():
        for own, start in zip(net.parameters(), part.parameters(), strict=True):
            own.copy_(start[: len(own)])
        got = method.head(m, batch_of((s, y, q)))[0]
    sgd = torch.optim.SGD(net.parameters(), 0.01)
    for _ in range(20):
        sgd.zero_grad()
        torch.nn.functional.cross_entropy(net(s), torch.as_tensor(y)).backward()
        sgd.step()
    torch.testing.assert_close(got, torch.log_softmax(5 * net(q), -1).detach(), atol=1e-4, rtol=1e-4)
    loss = method.task_loss(m, batch_of((s, y, q)), torch.zeros(1, len(q), dtype=torch.long))
    slopes = torch.autograd.grad(loss, list(part.parameters()))
    assert all(float(g.abs().max()) > 0 for g in slopes), "the outer gradient reaches every layer's start"


def test_a_maml_of_earlier_versions_has_its_linear_groups_and_centred_features(tmp_path):
    old = IFSLMAML(net="conv4:filters=16", block="linear", features="centred", scale=1.0, average="probability")
    learner = old.untrained((32, 32, 3), 5)
    learner.save(tmp_path / "model")
    facts = json.loads((tmp_path / "model" / "model.json").read_text(encoding="utf-8"))
    for later in ("block", "features", "scale"):
        del facts["options"][later]
    (tmp_path / "model" / "model.json").write_text(json.dumps(facts), encoding="utf-8")
    assert load(tmp_path / "model").method == old


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
    method = kind(net="conv4:filters=16", adjustment="feature", splits=1, features="centred", **options)
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
