"""What a report reads: recipes' folders, unfinished runs, saved runs, competitions' runs."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pytest

from handful.errors import BadInput
from handful.report.report import Report
from handful.runs import Run
from report.conftest import call, planted, run

RECIPE = """
title = "A small table"
paper = "nobody"
table = "Table 0"
reported_on = "other data"
[[test]]
label = "3-way 1-shot"
rule = "n-way"
ways = 3
shots = 1
queries = 4
tasks = 24
[[test]]
label = "3-way 3-shot"
rule = "n-way"
ways = 3
shots = 3
queries = 4
tasks = 24
[[method]]
name = "k-nn"
label = "neighbours & co"
trained = false
[method.options]
net = "pixels"
[method.reported]
"3-way 1-shot" = [61.5, 0.7]
[[method]]
name = "linear"
label = "probe"
trained = false
[method.options]
net = "pixels"
"""


def test_a_recipes_folder_shows_reported_beside_measured(source, capsys, tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    out = tmp_path / "out"
    code, text, err = call(
        capsys, "run", str(tmp_path / "r.toml"), "--collection", str(source.path), "--out", str(out), "--answers"
    )
    assert code == 0, err
    assert "[61.50 ± 0.70]" in text and "learning" in text
    code, text, err = call(
        capsys, "report", str(out), "--out", str(tmp_path / "p.html"), "--tables", str(tmp_path / "t"), "--json"
    )
    assert code == 0, err
    facts = json.loads(text)
    assert [t["title"] for t in facts["tasks"]] == ["3-way 1-shot", "3-way 3-shot"]
    cell = next(r for r in facts["reported"] if r["method"] == "neighbours & co" and r["test"] == "3-way 1-shot")
    assert (cell["reported"], cell["reported_half"], cell["learning"]) == (61.5, 0.7, "GL")
    measured = next(m for m in facts["tasks"][0]["methods"] if m["method"] == "neighbours & co")
    assert cell["measured"] == pytest.approx(100 * measured["value"])
    page = (tmp_path / "p.html").read_text()
    assert "[61.50 ± 0.70]" in page and "other data" in page and "over shots at 3 ways" in page
    assert r"neighbours \& co" in (tmp_path / "t" / "reported.tex").read_text()
    (out / "recipe.json").write_text("{")
    assert call(capsys, "report", str(out))[0] == 2


def test_an_unfinished_run_among_others_is_left_out_and_said(folders, tmp_path):
    shutil.copytree(folders / "k-nn", tmp_path / "whole")
    shutil.copytree(folders / "linear", tmp_path / "half")
    (tmp_path / "half" / "tasks.parquet").unlink()
    report = Report(tmp_path)
    assert report.comparisons[0].labels == ["k-nn"] and "not finished" in report.gathered.left_out[0]
    with pytest.raises(BadInput, match="not finished"):
        Report(tmp_path / "half")


def test_a_saved_run_opens_the_same(source, tmp_path):
    before = run(source, "k-nn", answers=True)
    after = Run.open(before.save(tmp_path / "r"))
    assert after.frame.equals(before.frame) and after.answers.equals(before.answers)
    assert after.identity == json.loads(json.dumps(before.identity))
    before.save(tmp_path / "r")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(BadInput, match="not empty"):
        before.save(tmp_path / "mine")


def test_a_competition_s_run_which_says_less_of_itself_is_reported_too(base):
    kept = {k: base.identity[k] for k in ("collection", "part", "rule", "tasks_id", "metrics")}
    up, down = np.linspace(0, 1, 40), np.linspace(1, 0, 40)
    runs = [
        dataclasses.replace(
            run, identity={**kept, "method": name, "seed": "committed"}, facts={"seconds": 3.5}, answers=None
        )
        for name, run in planted(base, alice=up, bob=down).items()
    ]
    report = Report(runs)
    assert "its run.json does not say how" in report.html()
    assert report.as_dict()["tasks"][0]["repeats"] is None


def test_json_holds_no_number_that_is_not_finite(base):
    one = dataclasses.replace(base, frame=base.frame.head(1))
    assert Report([one]).as_dict()["tasks"][0]["methods"][0]["low"] is None
