"""Engines lose workers and change no number; a recipe's matrix is the same on any of them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from handful.cli import main
from handful.errors import BadInput, HandfulError
from handful.runs.engine import Inline, Processes, make_engine
from handful.runs.every_core import EveryCore
from handful.runs.recipe import Recipe, run_recipe
from handful.runs.shipping import BLOCK, Depot, fetch, holds, parcel_of
from made.patterns import blobs


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    return blobs(n_classes=24, each=20).save(tmp_path_factory.mktemp("packed") / "blobs")


def once(folder, item):
    """Dies the first time it is asked for item 3, as a process that the system kills does."""
    if item == 3:
        try:
            (folder / "died").touch(exist_ok=False)
        except FileExistsError:
            return item * item
        os.kill(os.getpid(), signal.SIGKILL)
    return item * item


def always(context, item):
    if item == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return item


def refuse(context, item):
    raise BadInput(f"item {item} is not a number; give a number")


def test_a_killed_worker_costs_nothing_but_time_and_errors_of_the_work_are_not_retried(tmp_path):
    engine = Processes(1)
    assert sorted(engine.map(once, tmp_path, range(8))) == [i * i for i in range(8)]
    assert (tmp_path / "died").exists()
    for refusing in (Inline(), engine):
        with pytest.raises(BadInput, match="^item 0 is not a number; give a number$"):
            list(refusing.map(refuse, None, range(3)))
    engine.close()


def test_work_that_always_kills_its_worker_ends_in_one_sentence():
    with pytest.raises(HandfulError, match="a worker process died 2 times over the same work"):
        list(Processes(1, retries=1).map(always, None, range(3, 5)))


def test_an_engine_is_chosen_by_name_or_by_workers():
    assert make_engine().name == "cores" and make_engine(workers=1).name == "inline"
    assert (make_engine(workers=3).name, make_engine(workers=3).workers) == ("processes", 3)
    with pytest.raises(BadInput, match="did you mean processes"):
        make_engine("process")
    with pytest.raises(BadInput, match="the engine processes has no option 'address'"):
        make_engine("processes", 2, "auto")
    with pytest.raises(BadInput, match="inline engine has one worker"):
        make_engine("inline", 2)
    with pytest.raises(BadInput, match="at least 1"):
        make_engine(workers=0)


def recipe(**more):
    tests = [
        {"label": "1-shot", "ways": 3, "shots": 1, "queries": 2, "tasks": 70},
        {"label": "2-shot", "ways": 3, "shots": 2, "queries": 2, "tasks": 70},
    ]
    methods = [
        {"name": "protonet", "options": {"net": "conv4:filters=8", "schedule": {"steps": 3}}},
        {"name": "nearest-centroid"},
    ]
    train = {"ways": 3, "shots": 1, "queries": 2}
    return Recipe(**{"title": "small", "seeds": [0, 1], "train": train, "test": tests, "method": methods, **more})


@pytest.mark.slow
def test_methods_by_benchmarks_by_seeds_are_the_same_on_two_processes(packed, tmp_path):
    inline = run_recipe(recipe(), collection=str(packed.path), out=tmp_path / "one")
    spread = run_recipe(recipe(), collection=str(packed.path), workers=2, out=tmp_path / "two")
    assert list(inline.runs) == list(spread.runs) and len(inline.runs) == 8
    for key, run in inline.runs.items():
        assert run.frame.equals(spread.runs[key].frame), key
        assert run.identity == spread.runs[key].identity
        assert (spread.runs[key].path / "tasks.parquet").is_file()
    assert inline.frame.equals(spread.frame)
    assert (
        inline.runs["protonet", "1-shot", 0].identity["weights"]
        != inline.runs["protonet", "1-shot", 1].identity["weights"]
    )
    files = {p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file()}
    assert files == {p.relative_to(tmp_path / "two") for p in (tmp_path / "two").rglob("*") if p.is_file()}
    cells = json.loads((tmp_path / "two" / "recipe.json").read_text())["cells"]
    assert len(cells) == 8
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "two").rglob("model.safetensors")}
    again = run_recipe(recipe(), collection=str(packed.path), out=tmp_path / "two")
    assert again.frame.equals(spread.frame)
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "two").rglob("model.safetensors")}


def test_a_recipe_is_the_same_on_every_core(packed, tmp_path):
    inline = run_recipe(recipe(), collection=str(packed.path), engine="inline")
    spread = run_recipe(recipe(), collection=str(packed.path), engine=EveryCore(2), out=tmp_path / "two")
    assert list(inline.runs) == list(spread.runs)
    for key, run in inline.runs.items():
        assert run.frame.equals(spread.runs[key].frame) and run.identity == spread.runs[key].identity, key


def test_a_method_that_does_not_fit_a_test_is_refused_before_anything_is_trained(packed, tmp_path):
    wrong = recipe(test=[{"label": "pairs", "rule": "clustering", "of": {"rule": "n-way", "ways": 3, "shots": 1}}])
    with pytest.raises(HandfulError, match="needs labels"):
        run_recipe(wrong, collection=str(packed.path), workers=2, out=tmp_path / "out")
    assert not list((tmp_path / "out").glob("models/*"))


def test_the_command_line_runs_and_profiles_on_an_engine(packed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["eval", "protonet", str(packed.path), "--untrained", "--ways", "3", "--shots", "1", "--queries", "2"]
    words += ["--tasks", "130", "--json", "--profile", "--no-cache", "-s", "net=conv4:filters=8"]
    summaries = []
    for more in ([], ["--engine", "processes", "--workers", "2"]):
        with pytest.raises(SystemExit) as end:
            main(words + more)
        assert not end.value.code
        out, err = capsys.readouterr()
        summaries.append(json.loads(out)["summary"])
        assert "embed" in err and "share" in err
        profile = json.loads((tmp_path / "profile.json").read_text())
        assert {"draw", "read", "embed", "predict", "score"} <= set(profile["seconds"])
        assert 0 < sum(profile["shares"].values()) + profile["rest"] <= 1 + 1e-9
    assert summaries[0] == summaries[1]
    with pytest.raises(SystemExit) as end:
        main([*words, "--engine", "kubernetes"])
    assert end.value.code == 2 and "known: cores, inline, processes, ray" in capsys.readouterr().err


def test_a_parcel_is_shipped_once_and_only_whole(packed, tmp_path):
    parcel, depot, asked = parcel_of(packed.path), Depot(), []
    depot.offer({parcel.key: parcel.path})

    def read(*place):
        asked.append(place)
        return depot.read(*place)

    assert holds(packed.path, parcel)
    target = fetch(parcel, read, tmp_path / "shelf")
    assert holds(target, parcel) and target != packed.path
    assert all(length <= BLOCK for *_, length in asked)
    count = len(asked)
    assert fetch(parcel, read, tmp_path / "shelf") == target and len(asked) == count

    def lying(key, name, offset, length):
        block = depot.read(key, name, offset, length)
        return block[:-1] + bytes([block[-1] ^ 1]) if name == "images.npy" else block

    with pytest.raises(HandfulError, match="changed while it was shipped"):
        fetch(parcel, lying, tmp_path / "other")
    assert not [p for p in (tmp_path / "other").iterdir() if not p.name.endswith(".lock")]
    with pytest.raises(HandfulError, match="is not a file of"):
        depot.read(parcel.key, "../../secret", 0, 1)


def test_a_path_with_other_content_is_not_taken_for_the_same(packed, tmp_path):
    parcel = parcel_of(packed.path)
    other = blobs(n_classes=24, each=20, seed=1).save(tmp_path / "other")
    assert not holds(other.path, parcel)
    assert not holds(tmp_path / "nothing", parcel)
    assert isinstance(parcel.path, str) and Path(parcel.path).is_absolute()
