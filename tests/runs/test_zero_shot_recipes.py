"""Recipes can be run, figures can be drawn, and real features tell what the toys tell."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from documents import ROOT
from handful.audits.zero_shot import figures
from handful.audits.zero_shot.diagnosis import StructuralBias
from handful.audits.zero_shot.factors import Against, factor_analysis
from handful.audits.zero_shot.page import page
from handful.audits.zero_shot.split_audit import audit_split
from handful.data.class_splits import ClassSplit
from handful.data.importers.features import FeatureTable, by_classes, pack_features, read_features
from handful.data.semantics import open_semantics
from handful.data.taxonomy import Taxonomy
from handful.methods import make
from handful.metrics.structure import Shares
from handful.runs.evaluate import evaluate
from handful.runs.matrix import configured
from handful.runs.recipe import read_recipe, run_recipe
from handful.tasks.zero_shot import ZeroShot
from made.planted import planted


@pytest.mark.parametrize("name", ["table1", "table2"])
def test_every_row_of_the_recipes_names_a_method_and_its_reported_numbers(name: str) -> None:
    recipe = read_recipe(f"zero-shot/{name}")
    labels = {t.label for t in recipe.test}
    assert labels and all(set(m.reported) == labels for m in recipe.method)
    for method in recipe.method:
        assert configured(method, 0).needs == {"descriptions"}


def test_table_two_runs_on_planted_features(tmp_path: Path) -> None:
    collection, semantics = planted(0.5)
    names = np.array(collection.whole.class_names)[collection.whole.classes]
    split = collection.table["split"].to_numpy().astype("U9")
    table = FeatureTable(np.asarray(collection.array), names, "planted", {"split": split}, semantics)
    pack_features(table, tmp_path / "p", "planted", taxonomy=semantics.taxonomy)
    text = (ROOT / "src/handful/recipes/zero-shot/table2.toml").read_text()
    small = text.replace("wordnet:glove.txt", "stored").replace("epochs = 300", "epochs = 2").replace("512", "8")
    (tmp_path / "r.toml").write_text(small)
    result = run_recipe(read_recipe(str(tmp_path / "r.toml")), collection=str(tmp_path / "p"))
    assert len(result.frame) == 7 * 4 and result.frame["measured"].is_finite().all()
    rows = {(r["method"], r["test"]): r for r in result.frame.iter_rows(named=True)}
    assert rows[("ESZSL", "ZSL @1")]["reported"] == 13.54 and rows[("ESZSL", "ZSL @1")]["measured"] > 30
    assert rows[("ESZSL", "ZSL @1")]["over"] == "classes"


def test_figures_are_drawings_that_repeat() -> None:
    found = {"zsl": Shares(10, 0.5, 0.2, 0.2, 0.1), "gzsl": Shares(10, 0.1, 0.4, 0.3, 0.2)}
    against = {"eszsl": Against(np.array([1.0, 2, 3, 4]), np.array([0.1, 0.3, 0.2, 0.5]), 100)}
    analysis = {"eszsl": factor_analysis(lambda visual, semantic, structural: 0.1 + 0.2 * visual + 0.3 * structural)}
    line = (np.array([0.5, 0.4]), np.array([0.1, 0.1]))
    drawn = [
        lambda: figures.shares_figure(found),
        lambda: figures.cumulative_figure(np.array([0.0, 5, 50]), "count", log=True, mark=5.0),
        lambda: figures.histogram_figure(np.arange(9.0), "r"),
        lambda: figures.depth_figure([(1, 3, 200.0), (2, 5, 300.0)]),
        lambda: figures.against_figure(against, "frequency"),
        lambda: figures.factors_figure(analysis),
        lambda: figures.growing_figure(np.array([0.5, 1.0]), {"eszsl": line}, ceiling=np.array([0.9, 0.9]), chance=0.1),
    ]
    for draw in drawn:
        svg = draw()
        assert svg.startswith("<svg") and svg == draw()


def test_the_page_of_a_published_split_says_what_was_found(nouns: Taxonomy, splits: dict[str, list[str]]) -> None:
    found = audit_split(nouns, ClassSplit("1-hop", tuple(splits["train"]), tuple(splits["1-hop"]), "published"))
    text = page(found)
    assert "structural ratio is 0.617" in text and "98.1% of the test classes" in text and text.count("<svg") == 2
    facts = found.as_dict()
    assert facts["trivial_bound"] > 0.3 and not facts["consistent"]


@pytest.fixture(scope="module")
def tiny(shared: Path, nouns: Taxonomy, tmp_path_factory: pytest.TempPathFactory):
    table = read_features(shared / "tiny-features/lite0.npz")
    dealt = np.random.default_rng(0).permutation(np.unique(table.labels)).tolist()
    made = by_classes(table, dealt[:120], dealt[150:], dealt[120:150], held=8)
    return made.collection("tiny", hash_="0" * 64), f"wordnet:{shared / 'words/glove.6B.100d.nouns.txt.gz'}"


@pytest.mark.real
def test_word_vectors_name_unseen_classes_of_real_features(tiny) -> None:
    collection, spec = tiny
    train, test = ZeroShot(collection.train, spec), ZeroShot(collection.test, spec)
    learner = make("eszsl", gamma=10.0).meta_fit(train)
    run = evaluate(learner, test, test.size)
    assert test.size == 50 and run.estimate("top1").low > 2 / 50 and run.estimate("top5").value > 0.3
    shuffled = open_semantics(spec, collection)
    order = np.random.default_rng(0).permutation(len(shuffled.descriptions))
    from handful.data.semantics import Semantics

    wrong = Semantics.of(shuffled.descriptions.names, shuffled.descriptions.matrix[order])
    lost = evaluate(learner, ZeroShot(collection.test, wrong), test.size).estimate("top1").value
    assert lost < 0.5 * run.estimate("top1").value


@pytest.mark.real
def test_the_audit_walks_to_the_structural_question(tiny) -> None:
    collection, _ = tiny
    diagnosis = StructuralBias()
    assert diagnosis.missing(collection) == ""
    (finding,) = diagnosis.alone(collection, net="pixels", seed=0, seconds=10)
    assert finding.low < finding.value < finding.high and "structural ratio" in finding.sentence
    other, _ = planted(0.0)
    assert "not WordNet ids" in diagnosis.missing(other)
    assert isinstance(finding.as_dict()["details"], dict) and pl.DataFrame([finding.as_dict()["details"]]).height == 1
