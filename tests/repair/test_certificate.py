"""A certificate says what was changed, and is repeated with the same numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

import handful as hf
from handful.cli import app
from handful.errors import BadInput
from handful.repair.certificate import CERTIFICATE, Certificate, certify, verify
from handful.repair.certificate_page import order_of
from handful.repair.panel import PANEL, tau
from handful.repair.plan import PLAN, Plan
from handful.repair.repair import apply, propose


@pytest.fixture(scope="module")
def repaired(tmp_path_factory):
    base = tmp_path_factory.mktemp("certificate")
    # The two that learn by many steps take most of the panel's time.
    usual = dict(PANEL)
    PANEL.update({"linear classifier": ("r2d2", {"penalty": 50.0}), "cosine classifier": ("k-nn", {"k": 3})})
    packed = hf.world(classes=12, images=30, size=16, duplicates=0.1, splits=(0.5, 0.0, 0.5)).save(base / "packed")
    made = propose(packed, only=["duplicates"], net="pixels", minutes=0.2)
    fixed = apply(packed, made, base / "fixed")
    certificate = certify(packed, fixed, made, minutes=1.0, net="pixels", command="handful repair packed --out fixed")
    certificate.save(base / "fixed")
    yield packed, fixed, made, base / "fixed"
    PANEL.update(usual)


def test_it_says_what_was_done_and_to_what(repaired):
    packed, fixed, made, folder = repaired
    facts = Certificate.read(folder).facts
    assert facts["source"]["hash"] == packed.card.hash and facts["repaired"]["hash"] == fixed.card.hash
    assert facts["removed"]["duplicates"]["images"] == len(made.entries) == len(packed) - len(fixed) > 0
    copies = {
        s: {f["name"]: f for f in facts["audits"][s]["findings"]}["copies-across-splits"] for s in ("before", "after")
    }
    assert copies["before"]["light"] == "red" and copies["after"]["value"] == 0 and copies["after"]["light"] == "green"
    panel = facts["panel"]
    assert len(panel["methods"]) == len(PANEL) == 8 and -1 <= panel["tau"]["low"] <= panel["tau"]["high"] <= 1
    for one in panel["methods"].values():
        assert one["before"]["low"] <= one["before"]["value"] <= one["before"]["high"]
    text = (folder / "certificate.html").read_text()
    assert packed.id in text and "class means, cosine" in text and "copies-across-splits" in text


def test_it_is_equal_when_it_is_repeated(repaired):
    assert verify(repaired[3], quick=True) == []
    answer = CliRunner().invoke(app, ["verify-certificate", str(repaired[3]), "--quick", "--json"])
    assert answer.exit_code == 0 and json.loads(answer.stdout)["equal"] is True


def test_what_differs_is_said(repaired, tmp_path):
    packed, _, made, folder = repaired
    facts = json.loads((folder / CERTIFICATE).read_text())
    other = tmp_path / "other"
    apply(packed, made, other)
    facts["panel"]["methods"]["class means"]["after"]["value"] += 0.01
    (other / CERTIFICATE).write_text(json.dumps(facts))
    (said,) = verify(other, quick=True)
    assert said.startswith("class means after the repair scores")
    edited = Plan.read(other / PLAN)
    edited.entries.pop()
    edited.save(other / PLAN, packed)
    said = verify(other, quick=True)
    assert any(s.startswith("the plan is") for s in said) and any("what the plan makes" in s for s in said)
    (other / CERTIFICATE).write_text('{"handful": "certificate"}')
    with pytest.raises(BadInput, match="no certificate that can be read"):
        verify(other)


def test_tau_is_kendalls():
    before = np.tile([0.1, 0.2, 0.3, 0.4], (30, 1))
    assert tau(before, before).value == 1.0
    assert tau(before, before[:, ::-1]).value == -1.0
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 8)), rng.integers(0, 4, (40, 8)) / 4
    for i in range(20):
        theirs = stats.kendalltau(a[i], b[i]).statistic
        assert tau(a[i : i + 1], b[i : i + 1]).value == pytest.approx(theirs)
    alike = tau(np.ones((9, 3)), before[:9, :3])
    assert np.isnan(alike.value) and np.isnan(alike.low) and "score alike" in order_of({"value": None})
    swapped = tau(before, before[:, [0, 1, 3, 2]])
    # One of six pairs is the other way round: (5 - 1) / 6.
    assert swapped.value == pytest.approx(4 / 6) and swapped.low == swapped.high == pytest.approx(4 / 6)
    noisy = tau(before + rng.normal(0, 0.5, before.shape), before)
    assert noisy.low < noisy.value <= 1.0 and noisy.high - noisy.low > 0.3


def test_an_order_that_nothing_changed_has_no_spread():
    scores = np.random.default_rng(0).uniform(size=(40, 8))
    found = tau(scores, scores.copy())
    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)
    other = tau(scores, scores[::-1].copy())
    assert other.value == pytest.approx(1.0) and other.low < 1.0
