"""About how long a recipe takes: it grows with the work, counts what it should, and is said plainly."""

from __future__ import annotations

import json

import pytest

from handful.cli import main
from handful.cores import cores
from handful.runs import cost
from handful.runs.recipe import read_recipe, shortened


@pytest.fixture(autouse=True)
def steady(monkeypatch):
    """A machine of a known speed with one core, so that nothing is timed."""
    monkeypatch.setattr(cost, "speed", lambda: 1e10)
    monkeypatch.setenv("HANDFUL_CORES", "1")


def test_operations_of_a_backbone_are_counted_and_not_computed():
    """Conv-4 on 32x32: four 3x3 convolutions of 64 filters at sides 32, 16, 8, 4, two operations a multiplication."""
    expected = 2 * 9 * 64 * (3 * 32**2 + 64 * (16**2 + 8**2 + 4**2))
    assert cost.operations("conv4", (32, 32, 3)) == expected
    assert cost.operations("resnet50", (224, 224, 3)) == pytest.approx(2 * 4.1e9, rel=0.05)  # 4.1 G multiply-adds


def test_more_steps_larger_images_and_more_tasks_take_longer():
    recipe = read_recipe("metacoco/table6", "quick")
    whole = cost.seconds_of(recipe, (32, 32, 3))
    assert cost.seconds_of(shortened(recipe, 5), (32, 32, 3)) < whole < cost.seconds_of(recipe, (84, 84, 3))
    more = recipe.model_copy(update={"test": [t.model_copy(update={"tasks": 10 * t.tasks}) for t in recipe.test]})
    assert cost.seconds_of(more, (32, 32, 3)) > whole
    twice = recipe.model_copy(update={"seeds": [0, 1]})
    assert cost.seconds_of(twice, (32, 32, 3)) == pytest.approx(2 * whole)


def test_a_row_that_says_nothing_of_its_steps_makes_the_time_unknown():
    assert cost.seconds_of(read_recipe("zero-shot/table2", "quick"), (32, 32, 3)) is None
    assert cost.in_words(None) == "not known"


def test_two_cores_halve_a_table_of_many_rows(monkeypatch):
    recipe = read_recipe("metacoco/table2", "quick")
    alone = cost.seconds_of(recipe, (32, 32, 3))
    monkeypatch.setattr(cost, "cores", lambda: 2)
    assert cost.seconds_of(recipe, (32, 32, 3)) == pytest.approx(alone / 2)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(12, "less than a minute"), (60, "about 1 minute"), (10_000, "about 3 hours"), (200_000, "about 2 days")],
)
def test_times_are_said_in_plain_words(seconds, words):
    assert cost.in_words(seconds) == f"{words} on {cores()} core"


def test_the_list_of_recipes_says_how_long_each_takes(capsys):
    with pytest.raises(SystemExit) as end:
        main(["ls", "recipes", "--json"])
    assert not end.value.code
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["recipes"]}
    assert set(rows["metacoco/table2"]["takes"]) == {"quick", "paper"}
    assert "day" in rows["metacoco/table2"]["takes"]["paper"] and "on 1 core" in rows["spine/quick"]["takes"][""]
