"""Choices on validation classes: graph methods' options, the bias against seen classes, and options that were set."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from handful.errors import BadInput
from handful.methods import make
from handful.methods.contract import load
from handful.methods.zero_shot import tuning
from handful.methods.zero_shot.adgpm import ADGPM
from handful.methods.zero_shot.base import ZeroShotMethod
from handful.methods.zero_shot.cmt import CMT
from handful.methods.zero_shot.devise import DeViSE
from handful.methods.zero_shot.eszsl import ESZSL
from handful.methods.zero_shot.gcnz import GCNZ
from handful.methods.zero_shot.latem import LATEM
from handful.methods.zero_shot.sgcn import SGCN
from handful.methods.zero_shot.sync import SYNC
from handful.runs.evaluate import evaluate
from handful.tasks.zero_shot import GeneralisedZeroShot, ZeroShot
from learning import decide, over_images

from .planted import planted

GRAPHS = [SGCN(hidden=(32,)), GCNZ(hidden=(16, 16, 16, 16, 16)), ADGPM(hidden=(32,))]


@pytest.fixture(scope="module")
def bench():
    collection, semantics = planted(0.5)
    return {s: ZeroShot(collection.part(s), semantics) for s in ("train", "valid", "test")}


@pytest.mark.parametrize("method", GRAPHS, ids=lambda m: m.name)
def test_graph_methods_choose_their_options_on_validation_classes(method, bench, monkeypatch) -> None:
    grid = {"weight_decay": (5e-5, 0.5), "epochs": (1, 40)}
    monkeypatch.setattr(type(method), "grid", grid)
    chosen = method.meta_fit(bench["train"], bench["valid"])
    by_hand = {}
    for decay in grid["weight_decay"]:
        for epochs in grid["epochs"]:
            # Trained from the start, not on from a shorter training: the snapshots must be the same weights.
            alone = dataclasses.replace(method, weight_decay=decay, epochs=epochs).meta_fit(bench["train"])
            by_hand[(decay, epochs)] = tuning.validate(alone, bench["valid"])
            if (decay, epochs) == (chosen.method.weight_decay, chosen.method.epochs):
                np.testing.assert_allclose(
                    chosen.tensors["classifiers"], alone.tensors["classifiers"], rtol=1e-5, atol=1e-6
                )
    assert by_hand[(chosen.method.weight_decay, chosen.method.epochs)] == max(by_hand.values())
    assert len(set(by_hand.values())) > 1


def test_every_method_of_the_paper_is_tuned() -> None:
    for name in ("trivial", "conse", "devise", "eszsl", "sync", "latem", "cmt", "gcnz", "sgcn", "adgpm"):
        method = make(name)
        assert isinstance(method, ZeroShotMethod) and method.grid and tuning.tried(method) == method.grid


def test_an_option_that_was_set_is_kept(bench) -> None:
    assert ESZSL(gamma=7.0).meta_fit(bench["train"], bench["valid"]).method.gamma == 7.0
    kept = SGCN(hidden=(8,), epochs=3, weight_decay=0.1)
    assert tuning.tried(kept) == {}
    learner = kept.meta_fit(bench["train"], bench["valid"])
    assert (learner.method.epochs, learner.method.weight_decay) == (3, 0.1)


@pytest.mark.learning
@pytest.mark.parametrize(
    "method",
    [
        SYNC(loss="crammer-singer", lambda_=1e-2, steps=40),
        SYNC(loss="structured", lambda_=1e-2, steps=40),
        DeViSE(negatives="first", rate=1e-2),
        LATEM(steps_by="samples", rate=0.05, epochs=10, maps=2),
        CMT(novelty="gaussian", rate=1e-2, hidden=64),
        CMT(novelty="loop", rate=1e-2, hidden=64),
    ],
    ids=lambda m: f"{m.name}-{getattr(m, 'loss', '')}{getattr(m, 'negatives', '')}{getattr(m, 'novelty', '')}",
)
def test_published_variants_name_planted_compositions(method, bench, tmp_path) -> None:
    learner = method.meta_fit(bench["train"])
    run = evaluate(learner, bench["test"], bench["test"].size)
    decide(over_images(run, "top1"), above=0.15)
    learner.save(tmp_path / "m")
    again = evaluate(load(tmp_path / "m"), bench["test"], bench["test"].size)
    assert again.frame.equals(run.frame)


def general(method, collection, semantics) -> dict[str, float]:
    learner = method.meta_fit(ZeroShot(collection.train, semantics), ZeroShot(collection.valid, semantics))
    rule = GeneralisedZeroShot(collection.test, semantics)
    run = evaluate(learner, rule, rule.size)
    values = {c: run.estimate(c).value for c in ("seen1", "unseen1", "harmonic1")}
    return {**values, "bias": learner.method.calibration}


def test_a_bias_chosen_on_validation_lifts_the_harmonic_mean() -> None:
    collection, semantics = planted(0.5, each=30)
    plain = general(SYNC(tune=False), collection, semantics)
    chosen = general(SYNC(tune=False, calibration="validation"), collection, semantics)
    # Classifiers prefer what they were trained on.
    assert plain["unseen1"] < 0.3 * plain["seen1"] and chosen["bias"] > 0
    assert chosen["unseen1"] > plain["unseen1"] and chosen["seen1"] <= plain["seen1"]
    assert chosen["harmonic1"] > plain["harmonic1"] + 0.2


def test_the_bias_is_the_best_of_a_fine_grid_on_the_held_out_images(bench) -> None:
    method = ESZSL(gamma=1.0, lambda_=0.1, calibration="validation")
    learner = method.meta_fit(bench["train"], bench["valid"])
    assert isinstance(learner.method.calibration, float) and np.isfinite(learner.method.calibration)
    assert make("eszsl", calibration="validation").calibration == "validation"
    assert make("eszsl", calibration="inf").calibration == float("inf")
    with pytest.raises(BadInput, match="needs validation classes"):
        method.meta_fit(bench["train"])
    with pytest.raises(BadInput, match="option calibration cannot be 'best'"):
        make("eszsl", calibration="best")
    # Before it is chosen nothing is subtracted.
    assert method.bias == 0.0


@pytest.mark.parametrize("name", ["trivial", "conse", "devise", "eszsl", "sync", "latem", "cmt", "sgcn"])
def test_an_infinite_bias_silences_one_side_for_every_method(name: str, bench) -> None:
    small = {"epochs": 2} if name in ("devise", "latem", "cmt", "sgcn") else {}
    rule = GeneralisedZeroShot(bench["test"].part, bench["test"].semantics)
    for sign, silent in ((float("inf"), "seen1"), (float("-inf"), "unseen1")):
        options = {**small, "calibration": sign, **({"hidden": (8,)} if name == "sgcn" else {})}
        run = evaluate(make(name, **options).meta_fit(bench["train"]), rule, rule.size)
        assert run.estimate(silent).value == 0.0 and run.estimate("harmonic1").value == 0.0
