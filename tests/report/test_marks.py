"""Methods that see all queries of a task together are marked wherever they are shown, and the marks are explained there."""

from __future__ import annotations

import pytest

from handful.methods import make
from handful.report.report import Report
from handful.report.tables import recipe_grid, recipe_text
from handful.runs import evaluate
from handful.runs.recipe import read_recipe, run_recipe
from handful.tasks import NWay

RECIPE = """
title = "Two methods"
[train]
rule = "n-way"
ways = 3
[[test]]
label = "3-way"
rule = "n-way"
ways = 3
shots = 1
queries = 3
tasks = 4
[[method]]
name = "tpn"
label = "Propagation"
trained = false
options = { net = "conv4:filters=4" }
[[method]]
name = "protonet"
label = "Means"
trained = false
options = { net = "conv4:filters=4" }
"""


@pytest.fixture(scope="module")
def result(source, tmp_path_factory):
    folder = tmp_path_factory.mktemp("marks")
    (folder / "two.toml").write_text(RECIPE)
    return run_recipe(read_recipe(str(folder / "two.toml")), collection=str(source.path), out=folder / "out")


def test_a_recipes_grid_marks_the_transductive_row_and_says_what_the_marks_mean(result):
    assert recipe_grid(result)["method"].to_list() == ["Propagation†", "Means"]
    assert result.frame["transductive"].to_list() == [True, False]
    text = recipe_text(result)
    assert "† looks at all queries of a task together" in text
    assert all(f"{mark}: " in text for mark in ("GL", "LL", "TT"))


def test_every_table_of_a_report_marks_it_in_every_format(result, tmp_path):
    report = Report([result])
    for sheet in report.tables.values():
        for method in set(sheet.shown["method"]) if "method" in sheet.shown.columns else ():
            assert method in ("Propagation†", "Means"), sheet.name
    report.write_tables(tmp_path)
    written = {p.suffix: p.read_text() for p in tmp_path.iterdir() if "scores" in p.name}
    assert "Propagation†" in written[".csv"] and "Propagation†" in written[".md"]
    assert r"Propagation\textdagger{}" in written[".tex"]
    page = report.html()
    assert (
        "Propagation†" in page and "looks at all queries of a task together" in page and "LL: from the labels" in page
    )
    plain = page.replace("Propagation†", "")
    assert "Propagation" not in plain, "a page shows the method somewhere without its mark"


def test_a_run_of_a_transductive_method_is_marked_in_a_notebook(source):
    learner = make("tpn", net="conv4:filters=4").untrained(source.card.shape)
    assert "tpn†" in evaluate(learner, NWay(source.test, 2, 1, 2), n=2)._repr_html_()
