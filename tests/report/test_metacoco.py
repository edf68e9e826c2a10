"""The figures of the paper, drawn for a small collection."""

from __future__ import annotations

import polars as pl
import pytest
from typer.testing import CliRunner

import handful as hf
from handful.cli import app
from handful.errors import BadInput
from handful.methods.contract import make
from handful.report.metacoco import metacoco_figures, trained
from made.patterns import blobs


def test_all_figures_are_drawn_and_what_cannot_be_is_said(tmp_path):
    collection = blobs(n_classes=16, each=30)
    learners = {
        "pixels": {"euclidean": make("nearest-centroid"), "cosine": make("nearest-centroid", distance="cosine")},
        "conv4": {"euclidean": make("nearest-centroid", net="conv4:filters=4")},
    }
    built = {
        net: {m: method.untrained(collection.card.shape) for m, method in of.items()} for net, of in learners.items()
    }
    sweep = metacoco_figures(built, collection.whole, tmp_path, ways=(5, 10, 20), shots=(1, 5), queries=4, tasks=10)
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {"figures.csv"} | {
        f"figure{f}.svg"
        for f in (
            "3-1-shot",
            "3-5-shot",
            "4-5-way",
            "4-10-way",
            "6-5-way",
            "6-10-way",
            "5-ways",
            "5-shots",
            "7-ways",
            "7-shots",
        )
    }
    assert all((tmp_path / n).read_text().startswith("<svg") for n in names if n.endswith(".svg"))
    assert any(k.startswith("20-way") for k in sweep.left_out)
    rows = pl.read_csv(tmp_path / "figures.csv")
    assert rows.select("backbone", "method", "rule", "ways", "shots").n_unique() == len(rows), (
        "no point is measured twice"
    )
    assert set(rows["rule"]) == {"iid", "ood", "ood-conflict", "n-way"}
    with pytest.raises(BadInput, match="nothing to draw"):
        metacoco_figures({}, collection.whole, tmp_path)


def test_the_command_line_draws_them_and_keeps_the_models(tmp_path):
    """One command from a collection to the drawings; what cannot be drawn is said, what is trained is kept."""
    out = tmp_path / "figures"
    command = ["report", "figures", "world:classes=60,images=50,size=16", "--out", str(out), "--method", "protonet"]
    command += ["--method", "r2d2", "--net", "conv4:filters=4", "--steps", "2", "--tasks", "3", "--queries", "2"]
    command += ["--ways", "2,5", "--shots", "1,2"]
    found = CliRunner().invoke(app, command)
    assert found.exit_code == 0, found.output
    drawn = {p.name for p in out.glob("figure*.svg")}
    assert {f"figure{n}-{x}.svg" for n in (5, 7) for x in ("ways", "shots")} <= drawn
    assert "figure3-1-shot.svg" in drawn and "figure4-5-way.svg" in drawn and "figure6-5-way.svg" in drawn
    models = {p: p.stat().st_mtime_ns for p in (out / "models").rglob("model.json")}
    assert len(models) == 4, "both methods on five ways, and once more on ten"
    rows = pl.read_csv(out / "figures.csv")
    assert set(rows.filter(pl.col("trained_ways") == 10)["ways"]) == {10}
    assert set(rows.filter(pl.col("trained_ways") == 5)["ways"]) >= {2, 5}
    again = CliRunner().invoke(app, [*command, "--json"])
    assert again.exit_code == 0 and '"drawn"' in again.stdout
    assert models == {p: p.stat().st_mtime_ns for p in (out / "models").rglob("model.json")}


def test_ten_way_bars_are_of_the_models_that_were_trained_on_ten_ways(tmp_path):
    """A five-way model that always errs and a ten-way one that reads the pixels: the ten-way bar is the latter's."""
    collection = blobs(n_classes=16, each=30, noise=20.0)
    good = make("nearest-centroid").untrained(collection.card.shape)
    bad = make("nearest-centroid", net="conv4:filters=1,pool=1").untrained(collection.card.shape)
    sweep = metacoco_figures(
        {"net": {"one": bad, "two": bad}},
        collection.whole,
        tmp_path,
        ways=(5, 10),
        shots=(1, 5),
        queries=4,
        tasks=10,
        repeats=3,
        ten_way={"net": {"one": good}},
    )
    rows = pl.DataFrame(sweep.rows).filter(
        (pl.col("rule") == "n-way") & (pl.col("ways") == 10) & (pl.col("shots") == 5)
    )
    value = {(r["method"], r["trained_ways"]): r["value"] for r in rows.iter_rows(named=True)}
    assert value["one", 10] > 0.9 and value["two", 5] < 0.6
    assert ("two", 10) not in value and value["one", 5] == value["two", 5]  # the curves stay the five-way model's
    assert set(rows["n"]) == {30}, "three drawing seeds of ten tasks"


def test_ten_way_training_is_for_methods_that_learn_from_tasks(tmp_path):
    said = []
    found = trained(
        hf.world(classes=60, images=50, size=16),
        ["anil", "baseline"],
        ["conv4:filters=4"],
        1,
        tmp_path,
        ways=10,
        say=said.append,
    )
    learner = found["conv4:filters=4"]["anil"]
    assert list(found["conv4:filters=4"]) == ["anil"]
    assert len(learner.modules["last"].bias) == 10 and said == ["training anil, conv4:filters=4, 10-way"]
    few = trained(
        blobs(n_classes=12, each=30), ["protonet"], ["conv4:filters=4"], 1, tmp_path, ways=10, say=said.append
    )
    assert few == {} and "too few training classes" in said[-1]


def test_wrong_numbers_are_refused_before_anything_is_trained(tmp_path):
    for wrong in ("5;10", "5,0"):
        found = CliRunner().invoke(app, ["report", "figures", "world", "--out", str(tmp_path), "--ways", wrong])
        assert isinstance(found.exception, BadInput) and "--ways" in str(found.exception)
    assert not list(tmp_path.iterdir())
