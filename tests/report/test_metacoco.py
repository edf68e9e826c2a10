"""The figures of the paper, drawn for a small collection."""

from __future__ import annotations

import polars as pl
import pytest
from typer.testing import CliRunner

from handful.cli import app
from handful.errors import BadInput
from handful.methods.contract import make
from handful.report.metacoco import metacoco_figures
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
    assert len(models) == 2
    again = CliRunner().invoke(app, [*command, "--json"])
    assert again.exit_code == 0 and '"drawn"' in again.stdout
    assert models == {p: p.stat().st_mtime_ns for p in (out / "models").rglob("model.json")}


def test_wrong_numbers_are_refused_before_anything_is_trained(tmp_path):
    for wrong in ("5;10", "5,0"):
        found = CliRunner().invoke(app, ["report", "figures", "world", "--out", str(tmp_path), "--ways", wrong])
        assert isinstance(found.exception, BadInput) and "--ways" in str(found.exception)
    assert not list(tmp_path.iterdir())
