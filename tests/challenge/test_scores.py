"""Scores of a run against hand-computed and published numbers."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from scipy import stats

from handful.challenge import results, scores
from handful.challenge.tables import difficulty_figure
from handful.errors import BadInput
from handful.metrics.difficulty import difficulty
from handful.runs.run import Run

from .conftest import row


def rows(values: list[float], dataset: str = "a", ways: int = 2, shots: int = 1, start: int = 0) -> list[dict]:
    return [row(v, dataset, ways, shots, start + i) for i, v in enumerate(values)]


def frame_of(*seeds: list[dict]) -> pl.DataFrame:
    return pl.DataFrame([{**each, "repeat": i} for i, seed in enumerate(seeds) for each in seed])


def test_the_worst_seed_counts_with_its_own_interval():
    frame = frame_of(rows([0.2, 0.4, 0.6]), rows([0.1, 0.2, 0.3]), rows([0.9, 0.9, 0.9]))
    worst = scores.final_score(frame)
    assert worst.value == pytest.approx(0.2) and worst.n == 3
    assert worst.half == pytest.approx(stats.t.ppf(0.975, 2) * 0.1 / np.sqrt(3))
    assert [each.value for each in scores.repeats(frame)] == pytest.approx([0.4, 0.2, 0.9])


def test_the_parts_of_a_score_are_of_the_seed_that_counts():
    good, bad = rows([0.9, 0.7], "x", 2), rows([0.1, 0.3], "x", 2) + rows([0.2], "y", 3, start=2)
    facts = scores.summary(frame_of(good + rows([0.8], "y", 3, start=2), bad))
    assert facts["score"] == pytest.approx(0.2) and facts["overall"]["value"] == pytest.approx(0.5)
    assert {name: each["value"] for name, each in facts["by_dataset"].items()} == pytest.approx({"x": 0.2, "y": 0.2})
    assert facts["by_ways"]["3"]["n"] == 1
    text = scores.scores_text(frame_of(good, bad), 1.0)
    assert "dataset_1: 0.2" in text and "3_ways" in text


def test_the_files_of_a_run(tmp_path):
    both = rows([0.5, 0.7], "b<script>", 2, 1) + rows([0.1, 0.3], "a", 10, 5, 2)
    facts = results.write(frame_of(both), tmp_path, 12.5, "A <b>title</b>")
    assert json.loads((tmp_path / "scores.json").read_text()) == json.loads(json.dumps(facts))
    assert facts["score"] == pytest.approx(0.4) and facts["by_dataset"]["a"]["value"] == pytest.approx(0.2)
    lines = dict(line.split(": ") for line in (tmp_path / "scores.txt").read_text().splitlines())
    assert list(lines) == [
        "overall_score",
        "dataset_1",
        "dataset_2",
        "2_ways_normalized_accuracy",
        "10_ways_normalized_accuracy",
        "1_shot_normalized_accuracy",
        "5_shot_normalized_accuracy",
        "duration",
    ]
    assert float(lines["dataset_2"]) == pytest.approx(0.6) and lines["duration"] == "12.5"
    assert len(pl.read_parquet(tmp_path / "tasks.parquet")) == 4
    page = (tmp_path / "results.html").read_text()
    assert not (tmp_path / "run.json").exists(), "what participants get does not say which data and which rule"
    assert page.count("<svg") == 4 and "<script" not in page and "<b>title" not in page and "0.400" in page


def test_an_organisers_results_are_a_run_of_the_library(tmp_path):
    frame = frame_of(rows([0.5, 0.7]))
    identity = {"collection": "c", "part": "p", "rule": {"rule": "any-way"}, "tasks_id": "t", "seed": "committed"}
    identity |= {"metrics": ["accuracy"], "method": "submission-3"}
    results.write(frame, tmp_path / "r", 3.0, "T", identity=identity, learner={"transductive": True})
    run = Run.open(tmp_path / "r")
    assert run.frame.equals(frame) and run.transductive and run.method == "submission-3"
    assert run.estimate("normalised").value == scores.final_score(frame).value
    assert json.loads((tmp_path / "r/scores.json").read_text())["learner"] == {"transductive": True}


def test_the_published_difficulty_of_data_set_5():
    table = difficulty({"5": 0.052, "4": 0.502}, {"5": 0.133, "4": 0.938})
    row = table.filter(pl.col("dataset") == "5").to_dicts()[0]
    assert (row["worst"], row["modelling"], row["intrinsic"]) == pytest.approx((0.052, 0.081, 0.867))
    assert table.select(pl.sum_horizontal("worst", "modelling", "intrinsic")).to_series().to_list() == pytest.approx(
        [1, 1]
    )
    assert difficulty_figure(table).startswith("<svg")
    with pytest.raises(BadInput, match="one baseline only"):
        difficulty({"5": 0.1}, {"4": 0.1})


def test_ranks_by_data_set_are_averaged_and_ties_share():
    table = {
        "x": {"a": 0.9, "b": 0.1, "c": 0.5},
        "y": {"a": 0.8, "b": 0.2, "c": 0.5},
        "z": {"a": 0.1, "b": 0.3, "c": 0.1},
    }
    assert scores.average_ranks(table) == pytest.approx(
        {"x": (1 + 3 + 1.5) / 3, "y": (2 + 2 + 1.5) / 3, "z": (3 + 1 + 3) / 3}
    )
    with pytest.raises(BadInput, match="same data sets"):
        scores.average_ranks({"x": {"a": 1.0}, "y": {"b": 1.0}})
    assert scores.average_ranks({}) == {}


def test_tables_of_several_entries_side_by_side(tmp_path):
    from handful.challenge.tables import write_tables

    weak = frame_of(rows([0.1, 0.3], "a", 2, 1) + rows([0.0, 0.2], "b", 3, 5, 2))
    strong = frame_of(rows([0.7, 0.9], "a", 2, 1) + rows([0.4, 0.6], "b", 3, 5, 2))
    write_tables({"weak": weak, "strong": strong}, tmp_path / "t")
    table = {path.stem: pl.read_csv(path) for path in (tmp_path / "t").glob("*.csv")}
    assert table["overall"]["entry"].to_list() == ["strong", "weak"]
    assert table["overall"]["score"].to_list() == pytest.approx([0.65, 0.15])
    assert table["by-ways"]["ways"].to_list() == [2, 3] and table["by-ways"]["weak"].to_list() == pytest.approx(
        [0.2, 0.1]
    )
    assert table["by-shots"]["strong ±"][0] == pytest.approx(
        stats.t.ppf(0.975, 1) * np.std([0.7, 0.9], ddof=1) / np.sqrt(2)
    )
    assert table["difficulty"].row(0) == ("a", pytest.approx(0.2), pytest.approx(0.6), pytest.approx(0.2))
    assert (tmp_path / "t/difficulty.svg").read_text().startswith("<svg")
    with pytest.raises(BadInput, match="no scored entries"):
        write_tables({}, tmp_path / "none")


@pytest.mark.parametrize("values", [[1.0, 1.0 - 1e-16], [0.3], [-1.0, -1.0, -0.5], [1.0, 1.0 + 1e-12]])
def test_a_page_is_drawn_for_scores_without_spread(tmp_path, values):
    results.write(frame_of(rows(values)), tmp_path, 1.0, "Flat")
    assert (tmp_path / "results.html").read_text().count("<svg") == 4
