"""Choices on validation classes: graph methods' options, the bias against seen classes, and options that were set."""

from __future__ import annotations

import dataclasses
import sys

import numpy as np
import pytest

from handful.errors import BadInput
from handful.methods import make
from handful.methods.contract import load
from handful.methods.zero_shot import gradient, tuning
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
from made.planted import planted

GRAPHS = [SGCN(hidden=(32,)), GCNZ(hidden=(16, 16, 16, 16, 16)), ADGPM(hidden=(32,))]


@pytest.fixture(scope="module")
def bench():
    collection, semantics = planted(0.5)
    return {s: ZeroShot(collection.part(s), semantics) for s in ("train", "valid", "test")}


@pytest.mark.parametrize("method", GRAPHS, ids=lambda m: m.name)
def test_graph_methods_choose_their_options_on_validation_classes(method, bench, monkeypatch) -> None:
    grid = {"weight_decay": (5e-5, 0.5), "epochs": (1, 40)}
    monkeypatch.setattr(type(method), "grid", grid)
    monkeypatch.setattr(tuning, "WIDER", 0)
    chosen = dataclasses.replace(method, refit=False).meta_fit(bench["train"], bench["valid"])
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


def test_after_tuning_the_validation_classes_are_learned_from_too(bench, capsys, tmp_path) -> None:
    names = sorted([*bench["train"].part.class_names, *bench["valid"].part.class_names])
    learner = ESZSL().meta_fit(bench["train"], bench["valid"])
    assert len(learner.tensors["seen"]) == len(names)
    alone = ESZSL(refit=False).meta_fit(bench["train"], bench["valid"])
    assert len(alone.tensors["seen"]) == bench["train"].part.n_classes
    # The same options as without the second fit, which the validation classes then no longer can judge.
    assert (learner.method.gamma, learner.method.lambda_) == (alone.method.gamma, alone.method.lambda_)
    x, y, s = [], [], []
    for split in ("train", "valid"):
        part = bench[split].part
        x.append(part.collection.read(part.rows))
        y.append(part.classes + sum(map(len, s)))
        s.append(bench[split].described.shown(part.class_names)[0])
    x, y, s = (np.concatenate(v).astype(float) for v in (x, y, s))
    x, s = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, s))
    left = x.T @ x + learner.method.gamma * np.eye(x.shape[1])
    right = s.T @ s + learner.method.lambda_ * np.eye(s.shape[1])
    by_hand = np.linalg.solve(left, x.T @ np.eye(len(s))[y.astype(int)] @ s) @ np.linalg.inv(right)
    np.testing.assert_allclose(learner.tensors["V"], by_hand, rtol=1e-3, atol=1e-4)
    # What was chosen is said and recorded.
    err = capsys.readouterr().err
    assert f"eszsl: gamma={learner.method.gamma:g}, lambda_={learner.method.lambda_:g} chosen on 4 validation" in err
    assert {t["options"]["gamma"] for t in learner.tuning} >= set(ESZSL.grid["gamma"])
    assert max(learner.tuning, key=lambda t: t["accuracy"])["options"]["gamma"] == learner.method.gamma
    learner.save(tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.tuning == learner.tuning and again.method == learner.method


def test_an_option_set_to_its_default_is_kept_too(bench) -> None:
    assert set(tuning.tried(ESZSL(gamma=ESZSL().gamma))) == {"lambda_"}
    assert set(tuning.tried(make("eszsl", gamma="1", lambda_=1.0))) == set()
    assert set(tuning.tried(dataclasses.replace(ESZSL(gamma=1.0), seed=3))) == {"lambda_"}
    assert set(tuning.tried(dataclasses.replace(ESZSL(), seed=3))) == set(ESZSL.grid)
    assert set(tuning.tried(ESZSL(kept=("lambda_",)))) == {"gamma"}
    learner = ESZSL(gamma=1.0, lambda_=1.0).meta_fit(bench["train"], bench["valid"])
    assert (learner.method.gamma, learner.method.lambda_) == (1.0, 1.0) and learner.tuning == []
    with pytest.raises(BadInput, match="option kept cannot be 'by', which is not tuned"):
        ESZSL(kept=("by",))


def test_a_grid_whose_best_value_is_at_its_edge_goes_on(bench, monkeypatch, capsys) -> None:
    def judged(learner, rule):
        """As if the best gamma were 1000, and more maps always better."""
        value = getattr(learner.method, "gamma", None)
        return -abs(np.log10(value / 1000)) if value else learner.method.maps / 100

    monkeypatch.setattr(tuning, "validate", judged)
    monkeypatch.setattr(ESZSL, "grid", {"gamma": (0.1, 1.0, 10.0)})
    learner = ESZSL().meta_fit(bench["train"], bench["valid"])
    assert learner.method.gamma == pytest.approx(1000.0)
    assert [t["options"]["gamma"] for t in learner.tuning] == pytest.approx([0.1, 1, 10, 100, 1000, 10_000])
    assert "is the largest" not in capsys.readouterr().err
    # One that whole steps cannot reach, and a whole number, which costs: both are said.
    monkeypatch.setattr(ESZSL, "grid", {"gamma": (1e-4, 1e-3, 1e-2)})
    assert ESZSL().meta_fit(bench["train"], bench["valid"]).method.gamma == pytest.approx(10.0)
    assert "eszsl: gamma=10 is the largest that was tried" in capsys.readouterr().err
    monkeypatch.setattr(LATEM, "grid", {"maps": (1, 2)})
    assert LATEM(epochs=1).meta_fit(bench["train"], bench["valid"]).method.maps == 2
    assert "latem: maps=2 is the largest that was tried" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("method", "idle", "share"),
    [(DeViSE(tune=False), 1.5, 0.02), (LATEM(tune=False), 1.0, 0.06), (CMT(tune=False), 0.4, 0.1)],
    ids=lambda v: getattr(v, "name", ""),
)
def test_training_twice_as_long_changes_the_loss_little(method, idle: float, share: float, monkeypatch) -> None:
    """``idle`` is about what a map that ignores the image loses: margin times wrong classes, or the descriptions' variance."""
    collection, semantics = planted(0.5, each=100)
    values: list[float] = []

    class Listening(gradient.Descent):
        def __init__(self, method, parameters, loss, n, *more):
            def kept(rows, generator):
                value = loss(rows, generator)
                values.append(float(value.detach()))
                return value

            super().__init__(method, parameters, kept, n, *more)

    monkeypatch.setattr(sys.modules[type(method).__module__], "Descent", Listening)
    dataclasses.replace(method, epochs=2 * method.epochs).meta_fit(ZeroShot(collection.train, semantics))
    epochs = np.reshape(values, (2 * method.epochs, -1)).mean(1)
    early, late = epochs[method.epochs - 5 : method.epochs].mean(), epochs[-5:].mean()
    assert late < early < 0.2 * idle and early - late < share * idle


@pytest.mark.parametrize("method", [DeViSE(), LATEM(), CMT()], ids=lambda m: m.name)
def test_epochs_of_a_grid_come_from_one_training_and_are_those_of_a_shorter_one(method, bench, monkeypatch) -> None:
    monkeypatch.setattr(type(method), "grid", {"epochs": (2, 5)})
    monkeypatch.setattr(tuning, "validate", lambda learner, rule: learner.method.epochs == 5)
    begun: list[str] = []

    class Counted(gradient.Descent):
        def __init__(self, method, *more):
            begun.append(method.name)
            super().__init__(method, *more)

    monkeypatch.setattr(sys.modules[type(method).__module__], "Descent", Counted)
    chosen = dataclasses.replace(method, refit=False).meta_fit(bench["train"], bench["valid"])
    assert begun == [method.name] and chosen.method.epochs == 5
    alone = dataclasses.replace(method, epochs=5, tune=False).meta_fit(bench["train"])
    for name in ("M", "W", "T1", "T2"):
        if name in alone.tensors:
            np.testing.assert_array_equal(chosen.tensors[name], alone.tensors[name])


def test_a_whole_number_at_the_small_end_of_its_grid_gets_smaller(bench, monkeypatch, capsys) -> None:
    monkeypatch.setattr(tuning, "validate", lambda learner, rule: -abs(learner.method.hidden - 4))
    monkeypatch.setattr(CMT, "grid", {"hidden": (16, 64)})
    learner = CMT(epochs=1).meta_fit(bench["train"], bench["valid"])
    assert learner.method.hidden == 4 and [t["options"]["hidden"] for t in learner.tuning] == [16, 64, 4, 1]
    assert "is the smallest" not in capsys.readouterr().err
