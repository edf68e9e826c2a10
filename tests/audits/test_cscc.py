"""CSCC on planted truths: a label factor that is always the same, and one that changes from task to task."""

from __future__ import annotations

import json

import numpy as np
import pytest

import handful as hf
from handful.audits.cscc import (
    Consistency,
    FrozenCSCC,
    TrainedCSCC,
    consistency,
    finding,
    trained_consistency,
    usual_tasks,
)
from handful.data.collection import Card, Collection, as_table
from handful.errors import Infeasible, Mismatch
from handful.methods.clustering.references import KMeans
from handful.methods.metric.nearest_centroid import NearestCentroid
from handful.metrics.base import Estimate
from handful.tasks import NWay
from handful.tasks.bits import Bits, vectors
from handful.tasks.clustering import Clustering
from learning import decide
from made.patterns import blobs


@pytest.mark.learning
def test_a_fixed_factor_needs_no_labels_and_a_changing_one_does():
    c = vectors(11, 600)
    options = {"net": "mlp:hidden=0,out=8", "steps": 200, "tasks": 4, "rate": 0.02, "n": 300}
    fixed = trained_consistency(Bits(c.train, dimension=0), Bits(c.test, dimension=0), **options)
    changing = trained_consistency(Bits(c.train), Bits(c.test), **options)
    decide(fixed.value, above=0.93, what="fixed")
    decide(changing.value, below=0.93, what="changing")


def test_the_interval_is_paired_and_the_papers_is_beside(patches):
    rule = NWay(patches.test, 5, 5, 5)
    found = consistency(
        KMeans().untrained(rule.image_shape), NearestCentroid().untrained(rule.image_shape), rule, n=100
    )
    facts = found.as_dict()
    assert facts["cscc"]["low"] <= found.value.value <= facts["cscc"]["high"]
    u, s = found.unsupervised, found.supervised
    assert found.value.value == pytest.approx(u.value / s.value)
    assert found.independent == pytest.approx(found.value.value * np.hypot(u.half / u.value, s.half / s.value))
    with pytest.raises(Mismatch):
        consistency(
            KMeans().untrained(rule.image_shape), NearestCentroid().untrained(rule.image_shape), Clustering(of=rule)
        )


def test_a_network_that_hardly_sees_the_classes_proves_nothing_about_labels():
    """Two accuracies near guessing have a ratio near one, however much the benchmark needs its labels."""
    rule = NWay(blobs(n_classes=20, each=25).test, 5, 5, 5)

    def light(without, with_labels):
        u, s = (Estimate(v, v - 0.005, v + 0.005, "tasks", 400) for v in (without, with_labels))
        ratio = Estimate(u.value / s.value, u.value / s.value - 0.02, u.value / s.value + 0.02, "tasks", 400)
        return finding("cscc-frozen", Consistency(ratio, 0.02, u, s), rule, "a net", {})

    assert light(0.197, 0.215).light == "grey" and "hardly better than guessing" in light(0.197, 0.215).sentence
    assert light(0.78, 0.8).light == "red" and light(0.3, 0.8).light == "green"


def test_both_diagnoses_answer_in_the_form_of_the_audit():
    c = blobs(n_classes=20, each=25, noise=300.0)
    trained = TrainedCSCC().alone(c, net="conv4:filters=8", seed=0, seconds=0.1)
    frozen = hf.audit(c, only=["cscc-frozen"], minutes=0.4).findings
    for (f,), name in ((trained, "cscc"), (frozen, "cscc-frozen")):
        facts = json.loads(json.dumps(f.as_dict()))
        assert (
            facts["diagnosis"] == name and f.low <= f.value <= f.high and f.light in ("green", "amber", "red", "grey")
        )
        assert facts["details"]["supervised"]["value"] > 0.2 and facts["details"]["half_independent"] >= 0
        assert f.figure.startswith("<svg")
    assert trained[0].details["steps"] == 25


def test_tasks_shrink_to_what_a_part_can_serve():
    def of(sizes: list[int]) -> Collection:
        label = np.repeat(np.arange(len(sizes)), sizes)
        table = as_table({"kind": label, "split": ["test"] * len(label)})
        return Collection(
            Card("c", "features", (2,), ("kind",), schemes=("split",), hash="0" * 64),
            table,
            np.zeros((len(label), 2), np.float32),
        )

    assert (usual_tasks(of([40] * 6).whole).shots, usual_tasks(of([40] * 6).whole).queries) == (5, 15)
    small = usual_tasks(of([6, 6, 6]).whole)
    small.check()
    assert small.ways == 3 and small.shots == 2 and small.queries == 4
    for bad in ([2, 2, 2], [9]):
        with pytest.raises(Infeasible):
            usual_tasks(of(bad).whole)
    assert TrainedCSCC().missing(of([40] * 6)) and not FrozenCSCC().missing(of([40] * 6))
