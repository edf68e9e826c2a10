"""Figures beyond accuracy: reliability diagrams, and curves through sets of tasks that differ in one degree."""

from __future__ import annotations

import re

import numpy as np
import pytest

import handful as hf
from handful.methods import make
from handful.report.figures import reliability
from handful.report.report import Report
from handful.report.robustness import plain, strain_figures

PART = hf.world(size=16, classes=60, images=12).test
FEW = hf.tasks.NWay(PART, 3, 2, 4)
LEARNERS = {k: make(k).untrained(PART.collection.card.shape) for k in ("nearest-centroid", "matchingnet")}


def test_a_reliability_curve_goes_through_the_means_of_its_bins():
    """Two bins: 10 queries at 0.2 of which 1 is right, 30 at 0.9 of which 27 are; the empty bin is not drawn."""
    svg = reliability({"a": np.array([[10, 0, 30], [2.0, 0, 27.0], [1.0, 0, 27.0]])})
    lines = [[float(v) for v in re.findall(r"-?\d+\.?\d*", d)] for d in re.findall(r'<path d="(M[^"]*)"', svg)]
    diagonal = next(c for c in lines if len(c) == 4 and c[0] < c[2] and c[1] > c[3] and abs(c[0] - c[2]) > 100)
    across, up = diagonal[2] - diagonal[0], diagonal[3] - diagonal[1]
    want = [diagonal[0] + 0.2 * across, diagonal[1] + 0.1 * up, diagonal[0] + 0.9 * across, diagonal[1] + 0.9 * up]
    assert any(len(c) == 4 and np.allclose(c, want, atol=0.02 * across) for c in lines)


def test_a_report_shows_reliability_only_where_it_was_measured():
    sure = {k: hf.evaluate(v, FEW, n=64, metrics=["accuracy", "calibration"]) for k, v in LEARNERS.items()}
    assert "Can the probabilities be believed?" in Report(sure, pictures=0).html()
    unsure = {k: hf.evaluate(v, FEW, n=64) for k, v in LEARNERS.items()}
    assert "Can the probabilities be believed?" not in Report(unsure, pictures=0).html()


def test_runs_that_differ_in_one_degree_make_a_curve_and_others_none():
    def runs(*rules):
        return Report([hf.evaluate("nearest-centroid", rule, n=64) for rule in rules], pictures=0)

    noisy = [hf.tasks.Noisy(of=FEW, noise=x) for x in (0.0, 0.5)]
    found = strain_figures(runs(*noisy).comparisons)
    assert len(found) == 1 and "share of wrong labels" in found[0].alt
    assert found[0].alt in runs(*noisy).html()
    other = hf.tasks.Noisy(of=hf.tasks.NWay(PART, 3, 3, 4), noise=0.5)
    assert not strain_figures(runs(noisy[0], other).comparisons)


def test_a_rule_that_wraps_another_is_told_apart_option_by_option():
    rule = {"rule": "noisy", "noise": 0.2, "part": "p", "of": {"rule": "n-way", "ways": 5, "part": "p"}}
    assert plain(rule) == [("rule", "noisy"), ("noise", 0.2), ("of.rule", "n-way"), ("of.ways", 5)]


def test_calibration_is_compared_paired():
    one, two = (hf.evaluate(v, FEW, n=64, metrics="calibration") for v in LEARNERS.values())
    found = one.compare(two, "nll")
    difference = (one.frame["nll"] - two.frame["nll"]).to_numpy()
    assert found.difference.value == pytest.approx(difference.mean())
