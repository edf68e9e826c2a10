"""Evaluating on two million images does not load them: memory is bounded by the batch and the index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from handful.data.collection import Card
from handful.data.store import seal

SHAPE = (16, 16, 3)


def sparse(folder: Path, images: int, classes: int) -> Path:
    """A packed collection whose pixels are a hole in the file."""
    folder.mkdir()
    with open(folder / "images.npy", "wb") as stream:
        header = {"descr": "|u1", "fortran_order": False, "shape": (images, *SHAPE)}
        np.lib.format.write_array_header_1_0(stream, header)
        stream.truncate(stream.tell() + images * int(np.prod(SHAPE)))
    names = pl.Series([f"k{c:04d}" for c in range(classes)])
    table = pl.DataFrame(
        {"kind": names.gather(np.arange(images) % classes), "split": pl.repeat("test", images, eager=True)}
    )
    seal(folder, Card("sparse", "images", SHAPE, ("kind",), schemes=("split",)), table)
    return folder


def facts_of(collection: Path, method: str, out: Path, *more: str) -> dict:
    command = [sys.executable, "-m", "handful", "eval", method, str(collection), "--untrained", "--out", str(out)]
    command += ["--shots", "1", "--queries", "7", "-s", "net=conv4:filters=4", *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads((out / "run.json").read_text())


@pytest.mark.slow
def test_two_million_images_are_not_loaded(tmp_path):
    if os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize < 4 << 30:
        pytest.skip("needs 4 GB of free disk")
    large = sparse(tmp_path / "large", 2_000_000, 2000)
    small = sparse(tmp_path / "small", 20_000, 2000)
    assert (large / "images.npy").stat().st_size > 1.5e9 > 100 * (large / "images.npy").stat().st_blocks * 512
    tasks = ("--tasks", "640")
    found = facts_of(large, "protonet", tmp_path / "run", *tasks)
    base = facts_of(small, "protonet", tmp_path / "base", *tasks)
    assert base["peak_memory_mb"] > 100
    grown = found["peak_memory_mb"] - base["peak_memory_mb"]
    # Two million rows of an index: a few int64 arrays and the label table; the pixels would be 1,536 MB.
    assert grown < 450, f"{found['peak_memory_mb']:.0f} MB against {base['peak_memory_mb']:.0f} MB"


def test_freed_memory_is_kept_for_the_next_batch_unless_told_otherwise():
    """Page faults of large blocks taken again and again: with the option the pages are there already."""
    code = (
        "import resource, torch; from handful.nets.compute import Compute\n"
        "faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "with Compute().here():\n"
        "    for _ in range(30): torch.ones(20_000_000)\n"
        "    before = faults()\n"
        "    for _ in range(10): torch.ones(20_000_000)\n"
        "    print(faults() - before)\n"
    )
    found = []
    for keep in ("0", "1"):
        environment = {**os.environ, "HANDFUL_KEEP_MEMORY": keep, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        found.append(int(done.stdout))
    if not sys.platform.startswith("linux"):
        pytest.skip("needs glibc: only it is told to keep memory")
    assert found[1] < found[0] / 4, found
