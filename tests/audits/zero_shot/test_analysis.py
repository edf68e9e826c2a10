"""The analysis finds planted flaws: bad images, poor words, relatives that are scored wrong, and a ratio that grows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from handful.audits.zero_shot.analysis import analyse
from handful.audits.zero_shot.analysis_page import analysis_page
from handful.audits.zero_shot.cuts import AnalysisPlan
from handful.audits.zero_shot.factors import FactorAnalysis, factor_analysis
from handful.audits.zero_shot.figures import factors_figure
from handful.audits.zero_shot.semantic import Frequency
from handful.cli import main
from handful.data.collection import Card, Collection, as_table
from handful.data.importers.features import FeatureTable, pack_features
from handful.data.semantics import Semantics
from handful.data.taxonomy import Taxonomy
from handful.data.words import WordVectors
from handful.errors import BadInput
from handful.methods.zero_shot.eszsl import ESZSL
from handful.methods.zero_shot.trivial import Trivial
from handful.tasks.zero_shot import GeneralisedZeroShot, ZeroShot
from made.planted import planted

ATTRIBUTES, WIDTH = 14, 40
# Images of rare test classes show the next class: neither a word vector nor a probe can help them.
N_TRAIN, N_TEST = 24, 16


def flawed() -> tuple[Collection, Semantics, Frequency, WordVectors]:
    """Test class 2i + 1 is a child of test class 2i; every fourth class is a rare word with a random description."""
    rng = np.random.default_rng(0)
    names = [f"train{i:02d}" for i in range(N_TRAIN)] + [f"test{i:02d}" for i in range(N_TEST)]
    truth = (rng.random((len(names), ATTRIBUTES)) < 0.5).astype(np.float32)
    edges = [(n, "top") for n in names if n.startswith("train")]
    rare = []
    for i in range(N_TEST):
        name = f"test{i:02d}"
        edges.append((name, f"test{i - 1:02d}" if i % 2 else "top"))
        if i % 2:
            # A child looks almost like its parent.
            truth[N_TRAIN + i] = truth[N_TRAIN + i - 1]
            truth[N_TRAIN + i, i % ATTRIBUTES] = 1 - truth[N_TRAIN + i, i % ATTRIBUTES]
        if i % 4 == 0:
            rare.append(name)
    told = truth.copy()
    for name in rare:
        told[names.index(name)] = rng.random(ATTRIBUTES)
    each = np.array([20 + 4 * (i % 5) for i in range(len(names))])
    label = np.repeat(np.arange(len(names)), each)
    at = np.concatenate([np.arange(n) for n in each])
    shown = truth[label]
    bad = (at % 5 == 0) & (label >= N_TRAIN)
    shown[bad] = rng.random((int(bad.sum()), ATTRIBUTES)) < 0.5
    x = shown @ rng.normal(size=(ATTRIBUTES, WIDTH)) + 0.9 * rng.normal(size=(len(label), WIDTH))
    split = np.where(label < N_TRAIN, np.where(at >= 16, "test_seen", "train"), "test").astype("U9")
    card = Card("flawed", "features", (WIDTH,), ("kind",), schemes=("split",), hash="0" * 64)
    table = as_table({"kind": np.array(names)[label], "split": split})
    semantics = Semantics.of(names, told, Taxonomy.of(edges, words={n: [n] for n in names}), source="told")
    counts = {n: 10.0 if n in rare else 1000.0 + i for i, n in enumerate(names)}
    # Every word means its class first but two, which are words of their neighbours too.
    vectors = WordVectors((*names, "top"), np.eye(len(names) + 1, dtype=np.float32) + 0.1)
    return Collection(card, table, x.astype(np.float32)), semantics, Frequency("count", 500.0, counts), vectors


@pytest.fixture(scope="module")
def found():
    collection, semantics, frequency, vectors = flawed()
    train, rule = ZeroShot(collection.train, semantics), ZeroShot(collection.test, semantics)
    learners = {"eszsl": ESZSL(gamma=1.0, lambda_=0.1).meta_fit(train), "trivial": Trivial().meta_fit(train)}
    return analyse(
        learners,
        rule,
        collection.train.class_names,
        semantics.taxonomy,
        generalised=GeneralisedZeroShot(collection.test, semantics),
        vectors=vectors,
        frequency=frequency,
        plan=AnalysisPlan(group=4, levels=3, each=2),
    )


def test_every_flaw_that_was_planted_is_seen(found) -> None:
    one = found.factors["eszsl, ZSL"]
    # Relatives are confused most, words are wrong for a quarter of the classes, a fifth of the images show nothing.
    assert one.impact["structural"] > 0.1 and one.impact["semantic"] > 0.03 and one.impact["visual"] > 0.03
    assert one.remaining_error < 1 - one.reported - 0.25
    assert 0.6 < found.selection.good.mean() < 0.95
    assert found.good_classes.mean() == pytest.approx(0.75)
    shares = found.answers["eszsl, ZSL"]
    assert shares.ancestor + shares.descendant > 0.1
    assert shares.true + shares.ancestor + shares.descendant + shares.unrelated == pytest.approx(1)
    assert shares.true == pytest.approx(one.reported)


def test_rare_words_and_their_accuracy_go_together(found) -> None:
    against = found.against["frequency"]["eszsl"]
    assert len(against.value) == 4 and against.value[0] == 10.0
    assert against.accuracy[0] < against.accuracy[1:].mean() - 0.1 and against.correlation[0] > 0
    assert found.against["population"]["eszsl"].size == 4
    assert "accuracy against the structural ratio" in found.left_out
    assert found.accuracy["eszsl"]["top1"].value < found.top.value
    assert set(found.accuracy["eszsl"]) >= {"top1", "top5", "harmonic1", "seen1", "unseen1"}


def test_the_page_and_the_json_hold_every_figure(found) -> None:
    html = analysis_page(found)
    for figure in (
        "Figure 3, left",
        "Figure 5, left",
        "Figure 5, right",
        "Figure 13",
        "Figure 15",
        "Figures 2, 11, 12",
    ):
        assert figure in html, figure
    assert "Figures 6, 16, 17" in html and html.count("<svg") >= 8
    facts = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert facts["factors"]["eszsl, GZSL"]["accuracy"]["visual+semantic+structural"] >= 0
    assert len(facts["factors"]["eszsl, ZSL"]["accuracy"]) == 8


def test_a_factor_that_makes_it_worse_is_not_drawn_backwards() -> None:
    from handful.audits.zero_shot.figures import _share

    made = factor_analysis(lambda visual, semantic, structural: 0.5 + 0.2 * visual - 0.1 * semantic)
    assert isinstance(made, FactorAnalysis) and made.impact["semantic"] == pytest.approx(-0.1)
    parts = [_share(made, p) for p in ("accuracy", "visual", "semantic", "structural", "model error")]
    assert sum(parts) == pytest.approx(1) and min(parts) >= 0 and parts[2] == 0
    worse = factor_analysis(lambda visual, semantic, structural: 0.5 - 0.2 * visual)
    assert sum(_share(worse, p) for p in ("accuracy", "visual", "model error")) == pytest.approx(1)
    assert factors_figure({"x": worse}).startswith("<svg")


def test_secondary_meanings_are_asked_apart() -> None:
    collection, semantics, _, vectors = flawed()
    tree = semantics.taxonomy
    # Eight test classes carry the word of a training class, whose only neighbour is nearer to it.
    matrix = vectors.matrix.copy()
    matrix[:N_TRAIN, -1] += 1.0
    vectors = WordVectors(vectors.names, matrix)
    words = {n: [n] for n in tree.ids.tolist()}
    for i in range(8):
        words[f"test{i:02d}"] = [f"train{i:02d}"]
    edges = [(str(tree.ids[c]), str(tree.ids[p])) for c, p in zip(tree.child, tree.parent, strict=True)]
    worded = Taxonomy.of(edges, words=words)
    train, rule = ZeroShot(collection.train, semantics), ZeroShot(collection.test, semantics)
    made = analyse(
        {"eszsl": ESZSL().meta_fit(train)}, rule, collection.train.class_names, worded, vectors=vectors,
        plan=AnalysisPlan(group=6, meaning_splits=3),
    )  # fmt: skip
    assert made.split.meaning.primary.tolist() == [False] * 8 + [True] * 8
    assert made.meaning_size == 6 and set(made.meaning["eszsl"]) == {"primary", "secondary"}
    assert "Figure 3, right" in analysis_page(made)
    assert "generalised setting" in made.left_out and "accuracy against frequency" in made.left_out


def test_accuracy_against_the_structural_ratio_has_its_ceiling() -> None:
    collection, semantics = planted(0.5, n_test=24)
    train, rule = ZeroShot(collection.train, semantics), ZeroShot(collection.test, semantics)
    made = analyse(
        {"trivial": Trivial().meta_fit(train)}, rule, collection.train.class_names, semantics.taxonomy,
        plan=AnalysisPlan(group=8, levels=3, each=2),
    )  # fmt: skip
    assert made.growing is not None and set(made.growing["method"]) == {"trivial", "ceiling"}
    curve = made.growing.filter(made.growing["method"] == "trivial").sort("level")
    assert curve["ratio"].is_sorted() and curve["top1"][0] > curve["top1"][-1]
    assert "Figure 9" in analysis_page(made)


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    out = capsys.readouterr()
    return int(ended.value.code or 0), out.out, out.err


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    collection, semantics, frequency, _ = flawed()
    names = np.array(collection.whole.class_names)[collection.whole.classes]
    split = collection.table["split"].to_numpy().astype("U9")
    table = FeatureTable(np.asarray(collection.array), names, "flawed", {"split": split}, semantics)
    pack_features(table, tmp_path / "p", "flawed", taxonomy=semantics.taxonomy)
    np.savez(tmp_path / "f.npz", features=np.asarray(collection.array), labels=names)
    counts = "\n".join(f"{w},{c:g}" for w, c in (frequency.counts or {}).items())
    (tmp_path / "counts.csv").write_text(f"word,count\n{counts}\n")
    (tmp_path / "train.txt").write_text("\n".join(collection.train.class_names) + "\n")
    (tmp_path / "test.txt").write_text("\n".join(collection.test.class_names) + "\n")
    return tmp_path


def test_analyse_on_the_command_line(packed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = [packed / "p", "--semantics", "stored", "--counts", packed / "counts.csv", "--group", 4]
    code, out, _ = call(
        capsys, "zero-shot", "analyse", "eszsl,sgcn", *common, "-s", "sgcn.epochs=5", "-s", "sgcn.hidden=(8,)",
        "-s", "tune=false", "--page", packed / "a.html", "--save", packed / "models", "--json",
    )  # fmt: skip
    facts = json.loads(out)
    assert code == 0 and set(facts["accuracy"]) == {"eszsl", "sgcn"} and facts["factors"]
    assert "Figures 6, 16, 17" in (packed / "a.html").read_text()
    code, out, _ = call(capsys, "zero-shot", "analyse", packed / "models/sgcn", *common)
    value = 100 * facts["accuracy"]["sgcn"]["top1"]["value"]
    assert code == 0 and "supervised ceiling" in out and f"| sgcn               | {value:.1f} ±" in out
    for arguments, message in [
        (["eszsl,eszsl", packed / "p", "--semantics", "stored"], "several different ones"),
        (["eszsl", packed / "p", "--semantics", packed / "p/descriptions.npz"], "carry no hierarchy"),
        (["eszsl", packed / "p", "--semantics", "stored", "--page", packed], "is a folder"),
        (["eszsll", packed / "p", "--semantics", "stored"], "eszsl"),
    ]:
        code, out, err = call(capsys, "zero-shot", "analyse", *arguments)
        assert code == 2 and out == "" and message in err and len(err.strip().splitlines()) == 1, err


def test_images_are_selected_a_split_is_built_of_them_and_packed(packed: Path, capsys) -> None:
    tree = ["--taxonomy", packed / "p/taxonomy.csv"]
    code, out, _ = call(
        capsys,
        "zero-shot",
        "select",
        packed / "f.npz",
        "--train-per-class",
        10,
        "--out",
        packed / "q.csv",
        *tree,
        "--json",
    )
    facts = json.loads(out)
    assert code == 0 and 0.5 < facts["good"] < 1 and facts["rounds"] > 1
    (packed / "t.txt").write_text("train00\ntrain01\n")
    code, out, err = call(
        capsys, "zero-shot", "build", "--train", packed / "t.txt", "--candidates", packed / "test.txt", "-n", 4, *tree,
        "--quality", packed / "q.csv", "--images", 12, "--out", packed / "mine.txt", "--images-out", packed / "i.csv", "--json",
    )  # fmt: skip
    assert code == 0, err
    steps = {s["step"]: s for s in json.loads(out)["steps"]}
    assert "sample-wise" in steps
    rows = (packed / "i.csv").read_text().splitlines()
    assert rows[0] == "image,class" and len(rows) == 1 + 4 * 12
    code, out, _ = call(
        capsys, "data", "pack", packed / "f.npz", packed / "mine", "--as", "features", "-s", f"train={packed / 't.txt'}",
        "-s", f"test={packed / 'mine.txt'}", "-s", f"images={packed / 'i.csv'}",
    )  # fmt: skip
    from handful.data.opening import open_collection

    assert code == 0 and np.bincount(open_collection(str(packed / "mine")).test.classes).tolist() == [12] * 4
    (packed / "wrong.csv").write_text("image,class\n0,test00\n")
    lists = [f"train={packed / 't.txt'}", f"test={packed / 'mine.txt'}", f"images={packed / 'wrong.csv'}"]
    for more, message in (
        (["-s", lists[0], "-s", lists[1], "-s", lists[2]], "image 0 is of"),
        (["-s", lists[0]], "train and test go together"),
        (["-s", lists[2]], "give train and test too"),
        (["-s", lists[0], "-s", lists[1], "--size", 8], "leave size"),
        (["-s", "tran=x"], "did you mean train"),
    ):
        code, _, err = call(capsys, "data", "pack", packed / "f.npz", packed / "no", "--as", "features", *more)
        assert code == 2 and message in err and not (packed / "no").exists(), err
    code, _, err = call(capsys, "zero-shot", "select", packed / "f.npz", "--train-per-class", 99, *tree)
    assert code == 2 and "no image left beyond the 99" in err


def test_an_analysis_needs_a_learner_and_two_images_a_class() -> None:
    collection, semantics, _, _ = flawed()
    rule = ZeroShot(collection.test, semantics)
    with pytest.raises(BadInput, match="at least one fitted learner"):
        analyse({}, rule, collection.train.class_names, semantics.taxonomy)
