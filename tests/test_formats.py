"""What version 0.1 wrote still opens: a packed collection, a model folder, run folders, a recipe's results, episodes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import handful as hf
from handful.report.entries import gather
from handful.runs.recipe import read_recipe, run_recipe
from handful.runs.replay import replay_episode, replay_rule
from handful.tasks.files import read_episodes

OLD = Path(__file__).parent / "fixtures" / "format-0.1"
WORLD = "world:classes=12,images=10,size=16"


@pytest.fixture
def old(tmp_path):
    """A copy, so that nothing is written beside the fixture."""
    return Path(shutil.copytree(OLD, tmp_path / "old"))


def test_a_packed_collection_opens_and_its_bytes_are_those_of_its_card(old):
    packed = hf.open(old / "collection")
    assert packed.id == "world@1/16#3b88c259ccc8"
    assert len(packed) == 120 and packed.test.n_classes == 3
    np.testing.assert_array_equal(packed.read(np.arange(120)), hf.open(WORLD).read(np.arange(120)))


def test_episodes_replay(old):
    packed = hf.open(old / "collection")
    episodes = read_episodes(old / "episodes.jsonl", packed)
    drawn = hf.tasks.NWay(packed.test, 2, 1, 3).draw_block(3, 0, 3)
    assert [e.as_dict() for e in episodes] == [e.as_dict() for e in drawn]


def test_a_model_folder_scores_as_it_did(old):
    """Kept scores were made by the version that wrote the model; a share of 36 queries moves by whole queries only."""
    learner, kept = hf.load(old / "model"), hf.Run.open(old / "run")
    run = hf.evaluate(learner, hf.tasks.NWay(hf.open(WORLD).test, 2, 1, 3), n=6, seed=3)
    assert run.identity["tasks_id"] == kept.identity["tasks_id"]
    assert run.identity["weights"] == kept.identity["weights"]
    assert abs(run.estimate().value - kept.estimate().value) <= 1 / 36 + 1e-9


@pytest.mark.parametrize("name", ["run", "clustering", "transductive"])
def test_a_run_folder_opens_compares_and_is_drawn_again(old, name):
    run = hf.Run.open(old / name)
    assert len(run.frame) == run.identity["n"] and str(run)
    assert run.compare(hf.Run.open(old / name)).difference.value == 0
    rule = replay_rule(run)
    task = replay_episode(run, rule, 0, 1)
    row = run.frame.row(1, named=True)
    assert (task.n_classes, task.shots) == (row["ways"], row["shots"])


def test_the_answers_of_a_run_are_those_of_its_tasks(old):
    run = hf.Run.open(old / "run")
    drawn = replay_rule(run).draw(run.identity["seed"], 2)
    kept = run.answers.filter(run.answers["task"] == 2)
    assert kept["query"].to_list() == drawn.query.tolist()
    assert kept["truth"].to_list() == drawn.query_labels.tolist()


def test_a_recipes_results_are_not_worked_again(old):
    before = {p: p.stat().st_mtime_ns for p in sorted((old / "recipe").rglob("*.parquet"))}
    result = run_recipe(read_recipe(str(old / "recipe.toml")), out=old / "recipe")
    assert {p: p.stat().st_mtime_ns for p in sorted((old / "recipe").rglob("*.parquet"))} == before
    assert result.frame["reported"].to_list() == [50.0, None]
    assert {e.label for e in gather([old / "recipe"]).entries} == {"ProtoNet", "nearest-centroid"}
