"""Runs: the same table undisturbed, killed, resumed, on one worker or two."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from handful.data.collection import open_packed
from handful.errors import BadInput, Mismatch
from handful.methods import make
from handful.methods.answering import one_by_one
from handful.methods.embedded import EmbeddedLearner
from handful.runs import Run, evaluate
from handful.tasks import AnyWay, NWay
from made.patterns import blobs


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    return blobs(n_classes=24, each=20).save(tmp_path_factory.mktemp("packed") / "blobs")


def benchmark(collection):
    learner = make("protonet").untrained(collection.card.shape)
    return learner, AnyWay(collection.test, (2, 4), (1, 5), 4)


FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["torch", "polars", "handful.runs.evaluate", "handful.methods.metric.protonet"])


def begin(path, out):
    import torch

    torch.set_num_threads(1)
    learner, rule = benchmark(open_packed(path))
    evaluate(learner, rule, n=3000, out=out)


def killed_child(path, out, delay):
    """Start the run in a child of its own and SIGKILL it ``delay`` seconds after it wrote its next part."""
    parts = out / "parts"
    before = len(list(parts.glob("*.parquet"))) if parts.is_dir() else 0
    child = FORKS.Process(target=begin, args=(path, out))
    child.start()
    while child.is_alive():
        if parts.is_dir() and len(list(parts.glob("*.parquet"))) > before:
            break
        time.sleep(0.001)
    time.sleep(delay)
    os.kill(child.pid, signal.SIGKILL)
    child.join()


def test_a_run_killed_at_twenty_random_moments_ends_with_the_same_table(packed, tmp_path):
    learner, rule = benchmark(packed)
    whole = evaluate(learner, rule, n=3000)
    rng = np.random.default_rng(0)
    out = tmp_path / "run"
    for _ in range(20):
        killed_child(packed.path, out, float(rng.uniform(0, 0.02)))
    resumed = evaluate(learner, rule, n=3000, out=out)
    assert resumed.frame.equals(whole.frame)
    assert resumed.frame["task"].to_list() == list(range(3000))
    assert not list(out.glob("parts/*"))
    assert {p.name for p in out.iterdir() if not p.name.startswith(".")} == {"run.json", "tasks.parquet"}


def test_a_half_written_part_is_never_taken_for_a_whole_one(packed, tmp_path):
    learner, rule = benchmark(packed)
    out = tmp_path / "run"
    whole = evaluate(learner, rule, n=200, out=out)
    (out / "tasks.parquet").unlink()
    (out / "parts").mkdir()
    (out / "parts" / ".000000.parquet-x1").write_bytes(b"PAR1half")
    assert evaluate(learner, rule, n=200, out=out).frame.equals(whole.frame)
    assert not (out / "parts").exists()


def test_two_workers_give_the_same_table_to_the_bit(packed):
    learner, rule = benchmark(packed)
    one = evaluate(learner, rule, n=200, repeats=2, answers=True)
    two = evaluate(learner, rule, n=200, repeats=2, workers=2, answers=True)
    assert one.frame.equals(two.frame)
    assert one.answers.equals(two.answers)


def test_a_learner_that_adapts_gives_the_same_on_two_workers(packed):
    learner = make("fo-maml", test_steps=1).untrained(packed.card.shape)
    rule = NWay(packed.test, 3, 1, 2)
    assert evaluate(learner, rule, n=70).frame.equals(evaluate(learner, rule, n=70, workers=2).frame)


def test_chunks_agree_with_the_plain_contract(packed):
    learner, rule = benchmark(packed)
    run = evaluate(learner, rule, n=30, answers=True)
    for number in (0, 13, 29):
        episode = rule.draw(0, number)
        scores, _ = one_by_one(learner, rule, episode)
        mine = run.answers.filter(pl.col("task") == number)
        assert mine["predicted"].to_list() == scores.argmax(1).tolist()
        assert mine["truth"].to_list() == episode.query_labels.tolist()
        right = float((scores.argmax(1) == episode.query_labels).mean())
        assert run.frame.filter(pl.col("task") == number)["accuracy"].item() == right


def test_each_image_is_embedded_once(packed, monkeypatch):
    learner, rule = benchmark(packed)
    seen = []
    module = sys.modules["handful.runs.embedding"]
    original = module.embed_rows

    def counting(net, collection, rows, *rest, **more):
        seen.extend(rows.tolist())
        return original(net, collection, rows, *rest, **more)

    monkeypatch.setattr(module, "embed_rows", counting)
    evaluate(learner, rule, n=300, cache=False)
    assert 0 < len(seen) == len(set(seen)) <= len(packed.test)
    assert isinstance(learner, EmbeddedLearner)


def test_another_runs_folder_is_refused_and_untouched(packed, tmp_path):
    learner, rule = benchmark(packed)
    evaluate(learner, rule, n=64, out=tmp_path / "run")
    before = (tmp_path / "run" / "run.json").read_bytes()
    with pytest.raises(BadInput, match=r"another run's results \(its tasks_id, seed"):
        evaluate(learner, rule, n=64, seed=1, out=tmp_path / "run")
    assert (tmp_path / "run" / "run.json").read_bytes() == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("precious")
    with pytest.raises(BadInput, match="holds no run"):
        evaluate(learner, rule, n=64, out=tmp_path / "other")


def test_a_finished_run_grows_to_the_table_of_a_longer_one(packed, tmp_path):
    learner, rule = benchmark(packed)
    whole = evaluate(learner, rule, n=200, out=tmp_path / "whole").frame
    evaluate(learner, rule, n=150, out=tmp_path / "grown")
    kept = (tmp_path / "grown" / "tasks.parquet").stat().st_mtime_ns
    drawn = []
    counted = dataclasses.replace(rule)
    draw = type(rule).draw_block

    def counting(self, seed, start, stop):
        drawn.append(start)
        return draw(self, seed, start, stop)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(rule), "draw_block", counting)
        grown = evaluate(learner, counted, n=200, out=tmp_path / "grown").frame
    assert grown.equals(whole) and min(drawn) == 128, "the first two chunks were whole and are not worked again"
    assert (tmp_path / "grown" / "tasks.parquet").stat().st_mtime_ns != kept
    with pytest.raises(BadInput, match="another run's results"):
        evaluate(learner, rule, n=100, out=tmp_path / "grown")
    assert evaluate(learner, rule, n=200, out=tmp_path / "grown").frame.equals(whole)


def test_results_carry_where_they_come_from(packed, tmp_path):
    learner, rule = benchmark(packed)
    evaluate(learner, rule, n=64, seed=3, out=tmp_path / "run")
    facts = json.loads((tmp_path / "run" / "run.json").read_text())
    assert facts["identity"]["collection"] == packed.id
    assert facts["identity"]["seed"] == 3 and facts["identity"]["version"]
    assert facts["peak_memory_mb"] > 0 and facts["seconds"]["total"] > 0
    table = pl.read_parquet(tmp_path / "run" / "tasks.parquet")
    assert not [c for c in table.columns if "second" in c or "time" in c]
    again = Run.open(tmp_path / "run")
    assert again.estimate().value == pytest.approx(table["accuracy"].mean())
    assert {"ways", "value", "low", "high"} <= set(again.by("ways").columns)


def test_only_the_same_tasks_are_compared(packed):
    learner, rule = benchmark(packed)
    a = evaluate(learner, rule, n=64)
    with pytest.raises(Mismatch, match="different tasks"):
        a.compare(evaluate(learner, rule, n=64, seed=1))
    assert a.compare(evaluate(learner, rule, n=64)).tie


def test_repeats_are_drawing_seeds_and_their_interval_is_told_apart(packed):
    learner, rule = benchmark(packed)
    run = evaluate(learner, rule, n=64, repeats=3)
    assert run.frame["repeat"].to_list() == sorted(run.frame["repeat"].to_list())
    single = evaluate(learner, rule, n=64, seed=2)
    assert run.frame.filter(pl.col("repeat") == 2).drop("repeat").equals(single.frame.drop("repeat"))
    assert run.over_seeds().n == 3 and run.over_seeds().over == "seeds"
    assert run.estimate().n == 192


def test_a_read_only_results_folder_is_one_clear_error(packed, tmp_path):
    if os.getuid() == 0:
        target = Path("/proc/handful-run")
    else:
        target = tmp_path / "locked" / "run"
        target.parent.mkdir(mode=0o500)
    learner, rule = benchmark(packed)
    with pytest.raises(OSError):
        evaluate(learner, rule, n=64, out=target)
