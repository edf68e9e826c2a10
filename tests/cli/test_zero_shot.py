"""The verbs say what the library says, in text, JSON and a page; mistakes end in one line and exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from handful.audits.zero_shot.growing import by_level, grow, splits_by_ratio
from handful.cli import main
from handful.data.class_splits import read_classes, write_classes
from handful.data.importers.features import FeatureTable, pack_features
from handful.data.opening import open_collection
from handful.methods.zero_shot.eszsl import ESZSL
from handful.methods.zero_shot.trivial import Trivial
from handful.metrics.structure import structural_ratio
from handful.runs import evaluate
from handful.tasks.zero_shot import ZeroShot
from made.planted import planted


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    out = capsys.readouterr()
    return int(ended.value.code or 0), out.out, out.err


@pytest.fixture
def toy_files(tmp_path: Path) -> Path:
    (tmp_path / "tree.csv").write_text(
        "child,parent\nequine,thing\nelectronics,thing\nhorse,equine\nzebra,equine\ntv,electronics\nlaptop,electronics\n"
    )
    write_classes(tmp_path / "train.txt", ["horse", "tv"])
    write_classes(tmp_path / "test.txt", ["zebra", "laptop"])
    return tmp_path


def test_audit_of_the_toy_as_json_text_and_page(toy_files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy_files / "answers.csv").write_text("truth,predicted\nzebra,zebra\nzebra,equine\nlaptop,tv\nlaptop,laptop\n")
    common = [
        "--train",
        toy_files / "train.txt",
        "--test",
        toy_files / "test.txt",
        "--taxonomy",
        toy_files / "tree.csv",
    ]
    code, out, _ = call(
        capsys, "audit", "--only", "structural-bias", *common, "--predictions", f"zsl={toy_files / 'answers.csv'}",
        "--out", toy_files / "page.html", "--json",
    )  # fmt: skip
    facts = json.loads(out)
    assert code == 0 and facts["structural_ratio"] == 0.5 and facts["trivial_bound"] == 1.0 and facts["consistent"]
    assert facts["predictions"]["zsl"]["true"] == 0.5 and facts["predictions"]["zsl"]["ancestor"] == 0.25
    html = (toy_files / "page.html").read_text()
    assert "structural ratio is 0.500" in html and html.count("<svg") == 3 and "http://" not in html.split("<svg")[0]
    code, out, _ = call(capsys, "audit", *common)
    assert code == 0 and "structural ratio R         0.500" in out


def test_audited_predictions_belong_to_the_split(toy_files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = [
        "audit",
        "--only",
        "structural-bias",
        "--train",
        toy_files / "train.txt",
        "--test",
        toy_files / "test.txt",
    ]
    common += ["--taxonomy", toy_files / "tree.csv", "--predictions"]
    (toy_files / "strange.csv").write_text("zebra,zebra\nequine,zebra\n")
    code, out, err = call(capsys, *common, toy_files / "strange.csv")
    assert code == 2 and out == "" and "the truth equine is neither a training nor a test class" in err
    # Held-out images of training classes are asked too, where both are candidates.
    (toy_files / "gzsl.csv").write_text("zebra,equine\nlaptop,zebra\nhorse,zebra\n")
    code, out, _ = call(capsys, *common, toy_files / "gzsl.csv")
    assert code == 0 and "no true positive" in out and "FN/TP" not in out
    code, out, _ = call(capsys, *common, toy_files / "gzsl.csv", "--json")
    assert json.loads(out)["predictions"]["gzsl"]["fn_per_tp"] is None


def test_mistakes_are_one_line_and_exit_code_two(toy_files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = ["--taxonomy", toy_files / "tree.csv"]
    write_classes(toy_files / "one.txt", ["zebra"])
    write_classes(toy_files / "both.txt", ["zebra", "tv"])
    write_classes(toy_files / "strange.txt", ["zebra", "n00000000"])
    (toy_files / "cycle.csv").write_text("a,b\nb,a\n")
    for test, more, message in [
        ("one.txt", tree, "two test classes or more"),
        ("both.txt", tree, "in train and in test (tv)"),
        ("strange.txt", tree, "n00000000"),
        ("absent.txt", tree, "does not exist"),
        ("test.txt", ["--taxonomy", toy_files / "cycle.csv"], "cycle"),
    ]:
        code, out, err = call(
            capsys,
            "audit",
            "--only",
            "structural-bias",
            "--train",
            toy_files / "train.txt",
            "--test",
            toy_files / test,
            *more,
            "--json",
        )
        assert code == 2 and out == "" and message in err and len(err.strip().splitlines()) == 1, (test, err)


def test_build_writes_a_split_that_keeps_its_promises(toy_files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = (
        [f"x{i},far{i // 4}" for i in range(12)]
        + [f"far{i},deep" for i in range(3)]
        + ["deep,thing", "near,thing", "t,near"]
    )
    (toy_files / "big.csv").write_text("\n".join(rows) + "\n")
    write_classes(toy_files / "t.txt", ["t"])
    write_classes(toy_files / "pool.txt", [f"x{i}" for i in range(12)])
    write_classes(toy_files / "scale.txt", ["x0"])
    code, out, _ = call(
        capsys, "zero-shot", "build", "--train", toy_files / "t.txt", "--candidates", toy_files / "pool.txt", "-n", 4,
        "--taxonomy", toy_files / "big.csv", "--cap", "far1=1", "--exclude", "far2", "--drop", f"scale={toy_files / 'scale.txt'}",
        "--out", toy_files / "made.txt", "--json",
    )  # fmt: skip
    facts = json.loads(out)
    assert code == 0 and read_classes(toy_files / "made.txt") == facts["classes"] and len(facts["classes"]) == 4
    assert "x0" not in facts["classes"] and sum(c in ("x4", "x5", "x6", "x7") for c in facts["classes"]) == 1
    assert facts["structural_ratio"] <= facts["upper_bound"]
    assert [s["step"] for s in facts["steps"]] == [
        "not a training class",
        "scale",
        "not under far2",
        "no relative in train",
    ]
    code, _, err = call(
        capsys, "zero-shot", "build", "--train", toy_files / "t.txt", "--candidates", toy_files / "pool.txt", "-n", 40,
        "--taxonomy", toy_files / "big.csv",
    )  # fmt: skip
    assert code == 2 and "12 candidates are left" in err


def test_build_lets_other_classes_compete_for_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The queen of chess is the word's first meaning among the candidates; not once the monarch competes too."""
    rows = ["queen,chess", "bishop,chess", "pawn,chess", "Queen,people", "chess,top", "people,top", "t,top"]
    (tmp_path / "tree.csv").write_text("child,parent\n" + "\n".join(rows) + "\n")
    (tmp_path / "v.txt").write_text(
        "queen 1 0.1\nbishop 0 1\npawn 0 0.9\nchess 0.1 1\npeople 1 0\ntea 0.5 0.5\ntop 0.4 0.4\n"
    )
    write_classes(tmp_path / "t.txt", ["t"])
    write_classes(tmp_path / "pool.txt", ["queen", "bishop", "pawn"])
    write_classes(tmp_path / "among.txt", ["Queen"])
    common = ["zero-shot", "build", "--train", tmp_path / "t.txt", "--candidates", tmp_path / "pool.txt", "-n", 2]
    common += ["--taxonomy", tmp_path / "tree.csv", "--json"]
    left = {}
    for among in ([], ["--among", tmp_path / "among.txt"]):
        code, out, err = call(capsys, *common, "--words", tmp_path / "v.txt", *among)
        assert code == 0, err
        left[bool(among)] = next(s for s in json.loads(out)["steps"] if s["step"] == "polysemy")["after"]
    assert left == {False: 3, True: 2}
    code, _, err = call(capsys, *common, "--among", tmp_path / "among.txt")
    assert code == 2 and "--among needs --words" in err


def test_hops_tell_the_recomputed_split_from_the_published(toy_files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_classes(toy_files / "pool.txt", ["zebra", "laptop", "equine", "thing", "horse"])
    write_classes(toy_files / "old.txt", ["equine", "zebra"])
    common = [
        "--train",
        toy_files / "train.txt",
        "--candidates",
        toy_files / "pool.txt",
        "--taxonomy",
        toy_files / "tree.csv",
    ]
    code, out, _ = call(
        capsys,
        "zero-shot",
        "hops",
        *common,
        "-k",
        1,
        "--published",
        toy_files / "old.txt",
        "--out",
        toy_files / "h.txt",
        "--json",
    )
    assert code == 0 and read_classes(toy_files / "h.txt") == ["equine"]
    facts = json.loads(out)
    assert (facts["recomputed"], facts["both"], facts["published_only"], facts["recomputed_only"]) == (1, 1, 1, 0)
    code, out, _ = call(capsys, "zero-shot", "hops", *common)
    assert code == 0 and "recomputed: 4" in out


def test_run_trains_asks_and_keeps_the_learner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    collection, semantics = planted(0.5)
    names = np.array(collection.whole.class_names)[collection.whole.classes]
    split = collection.table["split"].to_numpy().astype("U9")
    table = FeatureTable(np.asarray(collection.array), names, "planted", {"split": split}, semantics)
    pack_features(table, tmp_path / "p", "planted", taxonomy=semantics.taxonomy)
    common = [tmp_path / "p", "--rule", "zero-shot", "--rule-set", "semantics=stored", "--json"]
    code, out, _ = call(capsys, "eval", "eszsl", *common, "--save", tmp_path / "model", "--out", tmp_path / "run")
    first = json.loads(out)
    value = {r["metric"]: r["value"] for r in first["summary"]}
    assert (
        code == 0
        and value["top1"] > 0.3
        and value["top5"] >= value["top1"]
        and (tmp_path / "run/tasks.parquet").is_file()
    )
    # The same as in Python: trained on the training classes, options chosen on the validation classes, all classes asked.
    packed = open_collection(str(tmp_path / "p"))
    train, valid, test = (ZeroShot(packed.part(s), "stored") for s in ("train", "valid", "test"))
    done = evaluate(ESZSL().meta_fit(train, valid), test, test.size, 0)
    assert first["summary"] == done.as_dict()["summary"] and first["summary"][0]["tasks"] == test.part.n_classes
    untuned = evaluate(ESZSL(tune=False).meta_fit(train, None), test, test.size, 0)
    code, out, _ = call(capsys, "eval", "eszsl", *common, "-s", "tune=false")
    assert json.loads(out)["summary"] == untuned.as_dict()["summary"]
    code, out, _ = call(capsys, "eval", tmp_path / "model", *common)
    assert {r["metric"]: r["value"] for r in json.loads(out)["summary"]} == value
    code, out, _ = call(capsys, "eval", tmp_path / "model", tmp_path / "p", "--rule", "generalised-zero-shot", "--json")
    general = {r["metric"]: r["value"] for r in json.loads(out)["summary"]}
    assert 0 <= general["harmonic1"] <= max(general["seen1"], general["unseen1"])
    code, out, _ = call(capsys, "eval", tmp_path / "model", tmp_path / "p", "--rule", "zero-shot", "--json")
    assert {r["metric"]: r["value"] for r in json.loads(out)["summary"]} == value
    bare = f"semantics={tmp_path / 'p/descriptions.npz'}"
    code, _, err = call(capsys, "eval", "trivial", tmp_path / "p", "--rule", "zero-shot", "--rule-set", bare)
    assert code == 2 and "hierarchy" in err


def test_growing_ratio_on_planted_classes() -> None:
    collection, semantics = planted(0.5, n_test=24)
    train, valid = ZeroShot(collection.train, semantics), ZeroShot(collection.valid, semantics)
    test = ZeroShot(collection.test, semantics)
    tree = semantics.taxonomy
    assert tree is not None
    splits = splits_by_ratio(
        tree, collection.train.class_names, collection.test.class_names, 8, levels=3, each=2, swaps=300
    )
    assert all(len(s.classes) == 8 for s in splits)
    for s in splits:
        assert s.ratio == pytest.approx(structural_ratio(tree, collection.train.class_names, s.classes).value)
    learners = {"trivial": Trivial().meta_fit(train, valid), "eszsl": ESZSL().meta_fit(train, valid)}
    levels = by_level(grow(learners, test, splits))
    curve = {
        m: levels.filter(levels["method"] == m).sort("level")["top1"].to_numpy()
        for m in ("trivial", "eszsl", "ceiling")
    }
    ratio = levels.filter(levels["method"] == "trivial").sort("level")["ratio"].to_numpy()
    assert (np.diff(ratio) > 0).all() and curve["trivial"][0] > curve["trivial"][-1] + 0.2
    assert curve["eszsl"][-1] > curve["trivial"][-1] and (curve["ceiling"] >= curve["eszsl"] - 0.05).all()
