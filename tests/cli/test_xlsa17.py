"""Files of the xlsa17 layout tune and test in one command, plain and generalised, with test images never trained on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from handful.cli import main
from handful.data.importers.features import read_features
from handful.data.opening import open_collection
from handful.methods.zero_shot.eszsl import ESZSL
from handful.tasks.zero_shot import GeneralisedZeroShot, ZeroShot

CLASSES, EACH, ATTRIBUTES, WIDTH = 40, 20, 24, 64
OWN = 1.0


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Birds of planted attributes: 20 classes to train, 8 to validate, 12 to test; 4 images of each seen class held out."""
    folder = tmp_path_factory.mktemp("CUB")
    rng = np.random.default_rng(0)
    attributes = rng.random((CLASSES, ATTRIBUTES))
    label = np.repeat(np.arange(CLASSES), EACH)
    # What attributes do not tell of a class is what makes seen classes be preferred.
    own = OWN * rng.normal(size=(CLASSES, WIDTH))
    x = attributes[label] @ rng.normal(size=(ATTRIBUTES, WIDTH)) + own[label] + rng.normal(size=(len(label), WIDTH))
    shuffled = rng.permutation(len(label))
    x, label = np.maximum(x[shuffled], 0), label[shuffled]
    place = np.zeros(len(label), int)
    for c in range(CLASSES):
        place[label == c] = np.arange(EACH)
    seen, held = label < 28, place < 4
    rows = {
        "trainval_loc": seen & ~held,
        "test_seen_loc": seen & held,
        "test_unseen_loc": ~seen,
        "train_loc": label < 20,
        "val_loc": seen & (label >= 20),
    }
    names = np.array([[f"{c + 1:03d}.Bird"] for c in range(CLASSES)], dtype=object)
    savemat(folder / "res101.mat", {"features": x.T, "labels": (label + 1)[:, None]})
    places = {k: np.flatnonzero(v)[:, None] + 1 for k, v in rows.items()}
    savemat(folder / "att_splits.mat", {"allclasses_names": names, "att": attributes.T, **places})
    return folder


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[dict, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    out = capsys.readouterr()
    assert ended.value.code in (0, None), out.err
    return json.loads(out.out) if "--json" in arguments else {}, out.err


def value(facts: dict, metric: str) -> float:
    return next(row["value"] for row in facts["summary"] if row["metric"] == metric)


def test_the_proposed_scheme_trains_on_no_test_image(birds: Path) -> None:
    table = read_features(birds)
    assert next(iter(table.schemes)) == "proposed"
    proposed, final, tuned = (table.schemes[k] for k in ("proposed", "final", "tuning"))
    assert set(table.labels[proposed == "valid"]) == set(table.labels[tuned == "valid"])
    assert ((proposed == "train") | (proposed == "valid")).tolist() == (final == "train").tolist()
    assert (proposed == "test_seen").tolist() == (final == "test_seen").tolist()
    # As published, the two lists for tuning hold the held-out images too.
    assert ((tuned != "") & (final == "test_seen")).any()


def test_one_command_tunes_and_tests(birds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call(capsys, "data", "pack", birds, tmp_path / "cub", "--as", "features")
    plain, err = call(
        capsys, "eval", "eszsl", tmp_path / "cub", "--rule", "zero-shot", "--save", tmp_path / "m", "--json"
    )
    assert "chosen on 8 validation classes" in err
    assert value(plain, "top1") > 0.5
    seen = {}
    for calibration in ("0", "validation"):
        both, _ = call(
            *(capsys, "eval", "sync", tmp_path / "cub", "--rule", "generalised-zero-shot"),
            *("-s", f"calibration={calibration}", "--json"),
        )
        seen[calibration] = {k: value(both, k) for k in ("seen1", "unseen1", "harmonic1")}
    assert seen["validation"]["unseen1"] > seen["0"]["unseen1"]
    assert seen["validation"]["harmonic1"] > seen["0"]["harmonic1"] + 0.1


@pytest.mark.slow
def test_the_recipe_of_cub_fills_its_table(birds: Path, tmp_path: Path) -> None:
    from handful.data.importers.features import pack_features
    from handful.runs.recipe import read_recipe, run_recipe

    pack_features(read_features(birds), tmp_path / "p", "cub")
    recipe = read_recipe("zero-shot/cub")
    assert all(set(m.reported) <= {t.label for t in recipe.test} and m.reported["ZSL @1"] > 30 for m in recipe.method)
    found = run_recipe(recipe, collection=str(tmp_path / "p")).frame
    assert len(found) == 6 * 2
    measured = dict(zip(zip(found["method"], found["test"], strict=True), found["measured"], strict=True))
    # Twelve candidates: chance is 8.3.
    assert all(value > 3 * 100 / 12 for (_, test), value in measured.items() if test == "ZSL @1"), measured


def test_generalised_candidates_are_all_classes_and_refitting_lifts_validation_classes(birds: Path, tmp_path) -> None:
    from handful.data.importers.features import pack_features
    from handful.runs.evaluate import evaluate

    collection = pack_features(read_features(birds), tmp_path / "p", "cub")
    collection = open_collection(tmp_path / "p")
    rule = GeneralisedZeroShot(collection.part("test"), "stored")
    rule.check()
    assert len(rule.candidates) == CLASSES and rule.size == CLASSES and len(rule.seen) == 28
    hit = {}
    for refit in (False, True):
        learner = ESZSL(gamma=1.0, lambda_=1.0, refit=refit).meta_fit(
            ZeroShot(collection.part("train"), "stored"), ZeroShot(collection.part("valid"), "stored")
        )
        frame = evaluate(learner, rule, rule.size).frame
        valid = frame["class"].is_in(collection.part("valid").class_names)
        hit[refit] = float(frame.filter(valid)["hit1"].mean())
    assert hit[True] > hit[False] + 0.3


def test_an_analysis_counts_refitted_validation_classes_as_seen(
    birds: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "data", "pack", birds, tmp_path / "cub", "--as", "features")
    edges = [f"{c + 1:03d}.Bird,family{c % 7}" for c in range(CLASSES)] + [f"family{i},bird" for i in range(7)]
    (tmp_path / "tree.csv").write_text("child,parent\n" + "\n".join(edges) + "\n")
    for refit, seen in (("true", 28), ("false", 20)):
        found, _ = call(
            *(capsys, "zero-shot", "analyse", "eszsl", tmp_path / "cub", "--taxonomy", tmp_path / "tree.csv"),
            *("-s", f"refit={refit}", "--group", "4", "--levels", "2", "--each", "1", "--json"),
        )
        assert found["split"]["train_classes"] == seen
