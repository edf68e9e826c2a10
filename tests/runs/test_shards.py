"""A table filled in shards is the table of one run, to the bit; what is missing or was run otherwise is named."""

from __future__ import annotations

import pytest

from data.conftest import handful
from handful.errors import BadInput, Mismatch
from handful.runs.recipe import read_recipe, run_recipe
from handful.runs.shards import parse_shard

RECIPE = """\
title = "Two methods"
paper = "none"
collection = "world:classes=20,images=20,size=16"
seeds = [0, 1]

[train]
rule = "n-way"
ways = 2
shots = 1
queries = 2

[[test]]
label = "one"
rule = "n-way"
ways = 2
shots = 1
queries = 3
tasks = 70

[[test]]
label = "two"
rule = "n-way"
ways = 3
shots = 2
queries = 3
tasks = 5

[[method]]
name = "protonet"
label = "ProtoNet"
options = {net = "conv4:filters=4", schedule = {steps = 2}}

[[method]]
name = "nearest-centroid"
label = "centroid"
"""


@pytest.fixture
def recipe(tmp_path):
    (tmp_path / "r.toml").write_text(RECIPE)
    return tmp_path / "r.toml"


def runs_of(result):
    return {key: run.frame.rows() for key, run in result.runs.items()}


@pytest.mark.parametrize("count", [1, 3, 7])
def test_shards_make_the_table_of_one_run(recipe, tmp_path, count):
    wanted = read_recipe(str(recipe))
    whole = run_recipe(wanted)
    done = [run_recipe(wanted, out=tmp_path / "t", shard=(k, count)) for k in range(count, 0, -1)]
    assert sum(len(r.runs) for r in done) == len(whole.runs) == 8, "each cell is done by one shard"
    together = run_recipe(wanted, out=tmp_path / "t", gather=True)
    assert runs_of(together) == runs_of(whole) and together.frame.equals(whole.frame)
    assert list(together.runs) == list(whole.runs) and (tmp_path / "t" / "recipe.json").is_file()


def test_what_is_missing_or_other_is_told(recipe, tmp_path):
    wanted = read_recipe(str(recipe))
    run_recipe(wanted, out=tmp_path / "t", shard=(1, 2))
    with pytest.raises(BadInput, match="lacks 4 of 8 runs .*ProtoNet, one, training seed 1"):
        run_recipe(wanted, out=tmp_path / "t", gather=True)
    run_recipe(wanted, out=tmp_path / "t", shard=(2, 2))
    with pytest.raises(Mismatch, match="another n"):
        run_recipe(wanted, out=tmp_path / "t", gather=True, tasks=4)
    for options in ({"shard": (1, 2)}, {"gather": True}):
        with pytest.raises(BadInput, match="--out"):
            run_recipe(wanted, **options)


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "a/b", "1/0", "-1/4", "1/9999999"])
def test_a_shard_is_a_piece_of_a_whole(text):
    with pytest.raises(BadInput, match="third of sixteen"):
        parse_shard(text)


def test_the_command_line_says_the_same(recipe, tmp_path):
    command = ["run", recipe, "--out", tmp_path / "t"]
    for piece in ("1/2", "2/2"):
        assert handful(*command, "--shard", piece).returncode == 0
    assert "nothing to do" in handful(*command, "--shard", "9/9").stdout
    done = handful(*command, "--gather")
    assert done.returncode == 0 and "centroid" in done.stdout
    assert handful(*command, "--gather", "--shard", "1/2").returncode == 2
