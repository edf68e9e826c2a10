"""CSCC of two finished runs is the ratio of their means on the same tasks, and refuses others."""

from __future__ import annotations

import pytest

from handful.errors import BadInput, Mismatch
from handful.runs.cscc import cscc_of
from handful.runs.evaluate import evaluate
from handful.runs.run import Run
from handful.tasks.clustering import Clustering
from handful.tasks.nway import NWay
from made.benches import small


def test_cscc_is_the_ratio_of_two_runs_on_the_same_tasks(tmp_path):
    rule = NWay(small().test, 3, 4, 5)
    evaluate("kmeans", Clustering(of=rule), n=12, seed=3, out=tmp_path / "without")
    evaluate("nearest-centroid", rule, n=12, seed=3, out=tmp_path / "with")
    evaluate("nearest-centroid", rule, n=12, seed=4, out=tmp_path / "other")
    without, labelled, other = (Run.open(tmp_path / name) for name in ("without", "with", "other"))
    found = cscc_of(without, labelled)
    assert found.value == pytest.approx(without.frame["unsupervised"].mean() / labelled.frame["accuracy"].mean())
    assert found.low <= found.value <= found.high and found.n == 12
    clustered = cscc_of(without, labelled, "clustering")
    assert clustered.value == pytest.approx(without.frame["clustering"].mean() / labelled.frame["accuracy"].mean())
    with pytest.raises(Mismatch, match="different tasks"):
        cscc_of(without, other)
    with pytest.raises(BadInput, match="clustering rule first"):
        cscc_of(labelled, without)
