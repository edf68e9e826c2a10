"""Centroid Networks: losses by hand, limits, planted truths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment

import handful as hf
from handful.errors import Mismatch
from handful.methods import make
from handful.methods.batch import pad
from handful.methods.clustering.centroid import CentroidNet, row_logits
from handful.methods.clustering.clusterer import Clusterer, with_weights_of
from handful.methods.clustering.references import KMeans, ProtoKMeans
from handful.methods.metric.protonet import ProtoNet
from handful.metrics.base import Estimate, mean_interval
from handful.metrics.cscc import cscc
from handful.nets.pixels import Pixels
from handful.tasks import AnyWay, NWay
from handful.tasks.bits import Bits, majority_accuracy, vectors
from handful.tasks.clustering import Clustering
from learning import decide

MODULES = torch.nn.ModuleDict({"backbone": Pixels((3,))})


def labelled_batch(seed: int = 0):
    g = torch.Generator().manual_seed(seed)
    s, q = torch.randn(6, 3, generator=g), torch.randn(4, 3, generator=g)
    y, labels = np.array([0, 0, 0, 1, 1, 1]), torch.tensor([[0, 1, 1, 0]])
    return pad([(s, y, q)], [(2,)], [5]), s.numpy(), y, q.numpy(), labels


def test_the_loss_by_hand():
    b, s, y, q, labels = labelled_batch()
    means = np.stack([s[y == 0].mean(0), s[y == 1].mean(0)])
    far = ((q[:, None] - means) ** 2).sum(2) / 2.0
    log_p = -far - np.log(np.exp(-far).sum(1, keepdims=True))
    cross = -log_p[np.arange(4), labels[0].numpy()].mean()
    center = ((s - means[y]) ** 2).mean()
    assert float(CentroidNet(center=0, temperature=2.0).task_loss(MODULES, b, labels)) == pytest.approx(cross, rel=1e-5)
    got = float(CentroidNet(center=0.3, temperature=2.0).task_loss(MODULES, b, labels))
    assert got == pytest.approx(cross + 0.3 * center, rel=1e-5)
    # Without the center loss it is Prototypical Networks' loss.
    assert float(CentroidNet(center=0).task_loss(MODULES, b, labels)) == pytest.approx(
        float(ProtoNet().task_loss(MODULES, b, labels))
    )


def test_the_sinkhorn_loss_by_hand():
    b, s, y, q, labels = labelled_batch()
    means = np.stack([s[y == 0].mean(0), s[y == 1].mean(0)])
    k = np.exp(-((q[:, None] - means) ** 2).sum(2) / 1.5)
    v = np.ones(2)
    for _ in range(10):
        u = (1 / 4) / (k @ v)
        v = (1 / 2) / (k.T @ u)
    plan = u[:, None] * k * v
    want = -np.log(4 * plan[np.arange(4), labels[0].numpy()]).mean()
    method = CentroidNet(center=0, gamma=1.5, train_conditional="sinkhorn")
    assert float(method.task_loss(MODULES, b, labels)) == pytest.approx(want, rel=1e-5)


def test_losses_of_a_padded_batch_are_the_mean_over_its_queries():
    g = torch.Generator().manual_seed(1)
    tasks = [
        (torch.randn(n, 3, generator=g), np.arange(n) % c, torch.randn(m, 3, generator=g))
        for n, c, m in ((6, 2, 4), (9, 3, 7))
    ]
    labels = [np.arange(4) % 2, np.arange(7) % 3]
    both = pad(tasks, [(2,), (3,)], [0, 1])
    y = torch.full((2, 7), -2)
    y[0, :4], y[1] = torch.as_tensor(labels[0]), torch.as_tensor(labels[1])
    for conditional in ("softmax", "sinkhorn"):
        method = CentroidNet(center=0, train_conditional=conditional)
        alone = [
            float(method.task_loss(MODULES, pad([t], [(c,)], [0]), torch.as_tensor(x)[None]))
            for t, c, x in zip(tasks, (2, 3), labels, strict=True)
        ]
        assert float(method.task_loss(MODULES, both, y)) == pytest.approx((4 * alone[0] + 7 * alone[1]) / 11, rel=1e-5)


@pytest.mark.parametrize("gamma", [1e-3, 0.05, 1.0])
def test_one_shot_and_small_gamma_is_protonet_task_by_task(patches, gamma):
    rule = NWay(patches.test, 5, 1, 15)
    centroid = CentroidNet(net="pixels", gamma=gamma, noise=0.0).untrained(rule.image_shape)
    proto = hf.methods.NearestCentroid().untrained(rule.image_shape)
    a = hf.evaluate(centroid, Clustering(of=rule), n=60).frame
    b = hf.evaluate(proto, rule, n=60).frame
    assert (a["clustering"] == 1).all()
    np.testing.assert_array_equal(a["unsupervised"].to_numpy(), b["accuracy"].to_numpy())


def test_labels_that_are_shown_are_used(patches):
    rule = NWay(patches.test, 5, 5, 5)
    centroid, proto = CentroidNet().untrained(rule.image_shape), ProtoNet().untrained(rule.image_shape)
    a, b = hf.evaluate(centroid, rule, n=30).frame["accuracy"], hf.evaluate(proto, rule, n=30).frame["accuracy"]
    assert (a == b).all()


@pytest.mark.parametrize(
    "options", [{}, {"eval_conditional": "sinkhorn"}, {"hard": True}, {"starts": 3}, {"relative": True, "gamma": 0.05}]
)
@pytest.mark.parametrize("clustering", ["sinkhorn", "kmeans"])
def test_a_task_in_a_padded_batch_is_the_task_alone(patches, options, clustering):
    rule = Clustering(of=AnyWay(patches.test, (2, 5), (1, 5), 3), sizes="starts" in options)
    learner = CentroidNet(net="pixels", clustering=clustering, **options).untrained(rule.image_shape)
    tasks = [rule.read(e) for e in rule.draw_block(0, 0, 5)]
    batch = pad(
        [(learner.embed(t.support.images), None, learner.embed(t.query.images)) for t in tasks],
        [t.support.shape for t in tasks],
        [t.support.seed for t in tasks],
        [t.support.sizes for t in tasks],
    )
    q, s = learner.head(batch)
    for i, t in enumerate(tasks):
        predictor, c = learner.fit(t.support), t.episode.n_classes
        # Clusters have no names: of several starts that are equally good, the last bits choose.
        mine, alone = soft(s[i, : len(t.support), :c].numpy()), soft(predictor.support_scores())
        names = linear_sum_assignment(-mine.T @ alone)[1]
        queries = soft(predictor.predict(t.query))[:, names]
        np.testing.assert_allclose(soft(q[i, : len(t.query), :c].numpy()), queries, atol=1e-4)
        np.testing.assert_allclose(mine, alone[:, names], atol=1e-4)


def soft(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_sinkhorn_conditionals_are_the_plans_rows():
    plan = torch.tensor([[[0.1, 0.3], [0.4, 0.2], [0.0, 0.0]]])
    rows = row_logits(plan.log()).exp()
    assert torch.allclose(rows[0, :2], torch.tensor([[0.25, 0.75], [2 / 3, 1 / 3]])) and rows.isfinite().all()


def test_training_unwraps_a_clustering_rule_and_refuses_hidden_labels(patches):
    rule = Clustering(of=NWay(patches.train, 3, 2, 2))
    method = make("centroid", **{"schedule.steps": 2})
    a, b = method.meta_fit(rule), method.meta_fit(rule.of)
    assert all(torch.equal(x, y) for x, y in zip(a.state().values(), b.state().values(), strict=True))

    class Hidden(NWay):
        shows = frozenset({"images"})

    with pytest.raises(Mismatch):
        method.meta_fit(Hidden(patches.train, 3, 2, 2))


@pytest.mark.learning
def test_the_center_loss_draws_classes_together(patches):
    train, test = NWay(patches.train, 5, 5, 5), NWay(patches.test, 5, 5, 5)

    def spread(center: float) -> np.ndarray:
        learner = make("centroid", center=center, **{"schedule.steps": 25}).meta_fit(train)
        shares = []
        for e in test.draw_block(0, 0, 100):
            z = learner.embed(test.part.collection.read(e.support)).numpy()
            means = np.stack([z[e.support_labels == c].mean(0) for c in range(5)])
            shares.append(((z - means[e.support_labels]) ** 2).sum() / ((z - z.mean(0)) ** 2).sum())
        return np.asarray(shares)

    decide(mean_interval(spread(0.0) - spread(30.0)), above=0)


def test_clusterings_are_compared_on_one_embedding(patches):
    learner = make("protonet", **{"schedule.steps": 1}).meta_fit(NWay(patches.train, 3, 2, 2))
    other = with_weights_of(learner, ProtoKMeans(init="greedy"))
    images = patches.read(np.arange(4))
    assert torch.equal(learner.embed(images), other.embed(images)) and isinstance(other.method, KMeans)


@dataclass(frozen=True, kw_only=True)
class MajorityBit(Clusterer):
    """The best clustering of binary vectors whose label bit is not known: which of the corners is nearer."""

    net: str = "pixels"
    name: ClassVar[str] = "majority-bit"

    def cluster(self, b):
        d = b.s.shape[-1]
        corners = torch.stack([torch.zeros(d), torch.ones(d)]).expand(len(b.s), -1, -1)
        return corners, self.logits(b.s, corners)


@pytest.mark.parametrize(
    "dimensions, value",
    [pytest.param(3, 0.75, marks=pytest.mark.slow), (11, 0.62), pytest.param(101, 0.54, marks=pytest.mark.slow)],
)
def test_with_a_random_bit_the_majority_gets_its_share(dimensions, value):
    assert majority_accuracy(dimensions) == pytest.approx(value, abs=0.005)
    part = vectors(dimensions, 800).whole
    rule = Clustering(of=Bits(part, support_size=400, queries=100))
    run = hf.evaluate(MajorityBit().untrained((dimensions,)), rule, n=400)
    estimate = run.estimate("unsupervised")
    assert abs(estimate.value - majority_accuracy(dimensions)) < max(0.008, 2 * estimate.half)
    few = hf.evaluate(MajorityBit().untrained((dimensions,)), Clustering(of=Bits(part)), n=400).estimate("unsupervised")
    assert 0.5 - 2 * few.half < few.value < majority_accuracy(dimensions) + 2 * few.half


def _trained_on_bits(dimensions: int, dimension: int) -> tuple[Estimate, Estimate]:
    c = vectors(dimensions, 600)
    options = {"net": "mlp:hidden=0,out=8", "schedule.steps": 200, "schedule.rate": 0.02, "schedule.tasks": 4}
    train, test = Bits(c.train, dimension=dimension), Bits(c.test, dimension=dimension)
    unsupervised = hf.evaluate(make("centroid", **options).meta_fit(train), Clustering(of=test), n=300).frame
    supervised = hf.evaluate(make("protonet", **options).meta_fit(train), test, n=300).frame
    found = unsupervised["unsupervised"].to_numpy()
    return mean_interval(found), cscc(found, supervised["accuracy"].to_numpy())


@pytest.mark.learning
def test_a_fixed_bit_is_learnt_and_needs_no_labels():
    accuracy, value = _trained_on_bits(11, 0)
    decide(accuracy, above=0.9, what="accuracy")
    decide(value, above=0.9, what="CSCC")


@pytest.mark.learning
def test_a_random_bit_cannot_be_learnt_beyond_the_majority():
    accuracy, value = _trained_on_bits(11, -1)
    decide(accuracy, below=majority_accuracy(11) + 0.1, what="accuracy")
    decide(value, below=0.95, what="CSCC")
