"""Whose score is split: a method by name, trained in the time, or a model folder; on the pixels where it looks at them."""

from __future__ import annotations

import json

import pytest

import handful as hf
from handful.audits.context import Context, usual_tasks
from handful.audits.learners import answering, on, trained
from handful.audits.score_split import REST, ScoreSplit
from handful.audits.tasks import tasks_of
from handful.cli import main
from handful.errors import Infeasible, Mismatch
from handful.methods.contract import make
from handful.nets.compute import Compute
from handful.runs import evaluate
from handful.tasks import AnyWay, NWay
from handful.tasks.clustering import Clustering
from handful.tasks.context import OOD
from handful.tasks.mix import Mix
from made.patterns import blobs

from .test_readers import described, split_score


@pytest.mark.parametrize(
    "make_rule",
    [
        lambda p: NWay(p, 3, 2, 3),
        lambda p: AnyWay(p, (2, 4), (1, 3), 2),
        lambda p: OOD(p, 3, 2, 2, conflict=False),
        lambda p: Clustering(of=NWay(p, 3, 2, 3)),
        lambda p: Mix(p, of=NWay(p, 2, 2, 3)),
        lambda p: Mix(rules=(NWay(p, 2, 2, 3), AnyWay(p, (2, 3), (1, 2), 2))),
    ],
)
def test_tasks_of_the_pixels_are_those_of_the_features(make_rule):
    c = blobs(n_classes=12, each=12)
    context = Context(c, net="mlp:hidden=0,out=4")
    rule = make_rule(context.view.like(c.whole))
    moved = on(rule, c)
    assert moved.part.collection is c and moved.image_shape == (16, 16, 3)
    for a, b in zip(rule.draw_block(3, 0, 9), moved.draw_block(3, 0, 9), strict=True):
        assert a.as_dict() == b.as_dict()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    c = blobs()
    method = make("protonet", net="conv4", schedule={"steps": 5})
    return method.meta_fit(NWay(c.train, 5, 2, 3)).save(tmp_path_factory.mktemp("models") / "protonet")


def test_the_score_of_a_model_folder_is_that_of_evaluating_it_on_the_pixels(folder):
    c = blobs(noise=500.0)
    found, parts = split_score(c, method=str(folder))
    n = found.details["tasks"]
    run = evaluate(hf.methods.load(folder), usual_tasks(Context(c, net="pixels").part), n, 0, metrics=("accuracy",))
    assert found.details["score"]["value"] == pytest.approx(run.estimate("accuracy").value, abs=1e-12)
    assert "protonet as trained, on pixels" in found.sentence
    assert found.details["score"]["value"] < 0.95 and parts[REST] != 0
    small = Context(blobs(size=12), net="mlp:hidden=0,out=4", method=str(folder), seconds=3)
    with pytest.raises(Mismatch, match="16x16x3"):
        ScoreSplit().run(small)


def test_a_method_is_trained_on_the_pixels_of_the_training_classes_and_says_for_how_long():
    context = Context(blobs(), net="mlp:hidden=0,out=4", method=make("protonet", schedule={"steps": 12}))
    who = answering(tasks_of(context), 60)
    assert who.said == "protonet on pixels, trained here for 12 of 12 steps" and not who.short
    assert who.rule.part.collection is context.collection and who.learner.shape == (16, 16, 3)


def test_a_method_that_needs_no_labels_is_asked_for_clusters_and_one_without_time_is_refused(folder):
    c = blobs()
    found, _ = split_score(c, method="kmeans")
    assert "kmeans on pixels; 5-way 5-shot without labels" in found.sentence
    with pytest.raises(Infeasible, match="more minutes"):
        trained(make("protonet"), usual_tasks(c.train), 1e-3, Compute())
    _, said, short = trained(make("protonet", schedule={"steps": 3}), usual_tasks(c.train), 60, Compute())
    assert said == "trained here for 3 of 3 steps" and not short


def test_features_have_no_pixels_so_that_a_small_net_is_trained_on_them(folder):
    c, _ = described(composed=False)
    found, _ = split_score(c, method="protonet", split="test", seconds=8)
    assert "protonet on its features, trained here for" in found.details["method"]
    assert "of 1,000 steps" in found.sentence
    with pytest.raises(Mismatch, match="feature maps"):
        split_score(c, method="dn4", split="test")
    with pytest.raises(Infeasible, match="no training classes"):
        split_score(c, method="protonet", split="all")


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    code = 0
    try:
        main(list(arguments))
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--method", "protonett"), "did you mean"),
        (("--method", "."), "not a model folder"),
        (("--method", "protonet", "--rule", "clustering"), "needs labels"),
        (("--method", "centroid", "--only", "power"), "add score-split to only"),
        (("--method", "pair-protonet"), "label column"),
        (("--method", "eszsl"), "does not describe its classes"),
        (("--rule", "zero-shot", "--only", "score-split"), "does not describe its classes"),
        (("--method", "refined-protonet-words", "--rule", "n-way"), "needs descriptions"),
    ],
)
def test_a_wrong_method_is_one_sentence(capsys, tmp_path, arguments, words):
    place = str(blobs(n_classes=20, each=12).save(tmp_path / "packed").path)
    code, _, err = call(capsys, "audit", place, "--net", "pixels", *arguments)
    assert code == 2 and words in " ".join(err.split()) and "Traceback" not in err, err


def test_the_command_line_takes_a_model_folder(capsys, tmp_path, folder):
    place = str(blobs().save(tmp_path / "packed").path)
    only = ("--only", "score-split", "--net", "pixels", "--minutes", "0.05")
    code, out, err = call(capsys, "audit", place, *only, "--method", str(folder), "--json")
    assert code == 0, err
    (found,) = json.loads(out)["findings"]
    assert found["details"]["method"] == "protonet as trained, on pixels"
