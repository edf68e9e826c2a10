"""Killed at random moments, a training and an evaluation end with the bits of undisturbed ones; a full disk harms neither."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .kills import EVALUATE, TRAIN, Command, disturbed, undisturbed

BOTH = pytest.mark.parametrize("command", [TRAIN, EVALUATE], ids=["train", "eval"])


@pytest.mark.slow
@BOTH
def test_some_kills_change_no_bit(tmp_path, command):
    """``scripts/kills`` does forty."""
    whole = undisturbed(command, tmp_path / "whole")
    assert all(result == whole for result in disturbed(command, tmp_path / "killed", 4, seed=1))


def limited(command: Command, out: Path, largest: int) -> subprocess.CompletedProcess[str]:
    """The command where no file may become larger than so many bytes: what a writer meets on a full disk."""
    start = (
        "import resource, runpy, sys; "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({largest}, {largest})); "
        "runpy.run_module('handful', run_name='__main__', alter_sys=True)"
    )
    paths = os.pathsep.join(p for p in sys.path if p)
    arguments = [sys.executable, "-c", start, *command.arguments, "--out", str(out)]
    return subprocess.run(arguments, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths})


@pytest.mark.slow
def test_a_full_disk_ends_a_training_in_one_sentence_and_the_checkpoint_stays(tmp_path):
    pytest.importorskip("resource", reason="needs resource: this system has no such limits")
    out, kept = tmp_path / "out", tmp_path / ".out.training" / "checkpoint.pt"
    process = TRAIN.start(out)
    while not kept.is_file():
        assert process.poll() is None, (tmp_path / "said").read_text()
        time.sleep(0.002)
    process.kill()
    process.wait()
    before = hashlib.sha256(kept.read_bytes()).digest()
    for litter in kept.parent.glob(".*"):  # a writer that was killed
        litter.unlink()
    done = limited(TRAIN, out, kept.stat().st_size // 2)
    said = done.stderr.splitlines()
    assert "going on at step" in said[0], done.stderr
    assert done.returncode == 2 and len(said) == 2 and "large" in said[1], done.stderr
    assert hashlib.sha256(kept.read_bytes()).digest() == before
    assert [p.name for p in kept.parent.iterdir()] == ["checkpoint.pt"] and not out.exists()
    assert TRAIN.start(out).wait(600) == 0, "there is room again"
    assert TRAIN.result(out) == undisturbed(TRAIN, tmp_path / "whole")


def test_a_full_disk_ends_an_evaluation_in_one_sentence(tmp_path):
    pytest.importorskip("resource", reason="needs resource: this system has no such limits")
    done = limited(EVALUATE, tmp_path / "out", 2000)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "large" in done.stderr, done.stderr


def test_slow_steps_are_kept_by_the_clock(tmp_path, monkeypatch):
    import handful as hf
    from handful.methods import training

    saved = []
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0)
    save = training._Progress.save
    monkeypatch.setattr(training._Progress, "save", lambda self, step, o: (saved.append(step), save(self, step, o)))
    rule = hf.tasks.NWay(hf.open("world:classes=12,images=10,size=16").train, 2, 1, 2)
    method = hf.methods.ProtoNet(net="conv4:filters=4", schedule={"steps": 3, "checkpoint_every": 100})
    method.meta_fit(rule, keep=tmp_path)
    assert saved[:3] == [1, 2, 3]
