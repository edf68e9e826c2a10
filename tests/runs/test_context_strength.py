"""A quick version of benchmarks/context_strength.py: what training plants, the gap shows."""

from __future__ import annotations

import sys

import pytest

from documents import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
from context_strength import gaps

import learning
from handful.metrics.base import mean_interval
from learning import decide


@pytest.mark.slow
@pytest.mark.learning
def test_gap_grows_with_the_strength_of_the_planted_correlation():
    """R2D2 trained where the ground gives the class away leans on it; trained where it does not, much less."""
    found = {
        s: gaps(s, ("r2d2",), steps=60, tasks=60, seed=learning.SEED, classes=30, net="conv4:filters=32")["r2d2"]
        for s in (0.0, 1.0)
    }
    lost = {s: f["iid"] - f["ood"] for s, f in found.items()}
    decide(mean_interval(lost[1.0] - lost[0.0]), above=0, what="lost to the planted correlation")
    conflict = mean_interval(found[1.0]["ood"] - found[1.0]["ood-conflict"])
    decide(conflict, above=0, what="a context that speaks for another class misleads more than a new one")
