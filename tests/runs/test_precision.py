"""``--precision auto``: bfloat16 only where the processor has it and no score moves by more than 0.001."""

from __future__ import annotations

import json

import pytest

from handful.methods import make
from handful.nets.compute import Compute
from handful.runs import evaluate, precision
from handful.runs.every_core import EveryCore
from handful.tasks import NWay
from made.patterns import blobs


@pytest.fixture(scope="module")
def collection():
    return blobs(n_classes=24, each=20)


def asked(collection, **options):
    learner = make("protonet", net="conv4:filters=8").untrained(collection.card.shape, compute=Compute(**options))
    return learner, NWay(collection.test, 3, 2, 4)


@pytest.mark.parametrize(
    ("has", "allowed", "taken"), [(True, 1.0, "bfloat16"), (True, -1.0, "float32"), (False, 1.0, "float32")]
)
def test_the_precision_that_is_taken_is_said_and_computes_what_it_says(
    collection, has, allowed, taken, monkeypatch, tmp_path, capsys
):
    monkeypatch.setattr(precision, "has_bfloat16", lambda device: has)
    monkeypatch.setattr(precision, "MOST", allowed)
    learner, rule = asked(collection, precision="auto")
    run = evaluate(learner, rule, 70, out=tmp_path / "run", answers=True)
    assert f"precision auto: {taken}, for " in capsys.readouterr().err
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["identity"]["precision"] == taken and facts["precision"].startswith(f"auto: {taken}, for ")
    plain = evaluate(*asked(collection, precision=taken), 70, answers=True)
    assert run.frame.equals(plain.frame) and run.answers.equals(plain.answers)
    assert learner.compute.precision == "auto"  # the learner that was given is left as it was
    other = evaluate(*asked(collection, precision="float32" if taken == "bfloat16" else "bfloat16"), 70, answers=True)
    assert not run.answers.equals(other.answers)


def test_what_moves_decides_and_is_the_same_on_any_number_of_cores(collection, monkeypatch, capsys):
    monkeypatch.setattr(precision, "has_bfloat16", lambda device: True)
    learner, rule = asked(collection, precision="auto")
    said = []
    for moved in (0.0, 0.5):
        monkeypatch.setattr(
            precision, "_means", lambda names, frame, values=iter((0.5, 0.5 + moved) * 2): {"a": next(values)}
        )
        for cores in (1, 2):
            said.append(evaluate(learner, rule, 20, engine=EveryCore(cores)).identity["precision"])
    assert said == ["bfloat16", "bfloat16", "float32", "float32"]


def test_a_method_that_adapts_its_backbone_stays_in_float32(collection, capsys):
    learner = make("fo-maml", net="conv4:filters=8", test_steps=1).untrained(
        collection.card.shape, compute=Compute(precision="auto")
    )
    run = evaluate(learner, NWay(collection.test, 3, 1, 2), 3)
    assert run.identity["precision"] == "float32" and "fo-maml computes in nothing else" in run.facts["precision"]
