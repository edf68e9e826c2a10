"""How cost grows: time and memory of an evaluation for ten times the tasks, the classes, the images.

    python benchmarks/growth.py

Every case is a process of its own (`handful eval`), and tells its seconds and peak memory in its run.json. "Images" grows the
collection, not what the tasks ask of it; the time to hash a collection at its first opening is outside the run's seconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from machine import quiet, verdict

from handful.data.collection import Card
from handful.data.store import seal

BASE = {"tasks": 300, "classes": 100, "images": 20_000}
SHAPE = (16, 16, 3)


def collection(folder: Path, images: int, classes: int) -> Path:
    """A packed collection of noise."""
    folder.mkdir(parents=True)
    array = np.lib.format.open_memmap(folder / "images.npy", mode="w+", dtype=np.uint8, shape=(images, *SHAPE))
    rng = np.random.default_rng(0)
    for start in range(0, images, 10_000):
        stop = min(start + 10_000, images)
        array[start:stop] = rng.integers(0, 256, (stop - start, *SHAPE), dtype=np.uint8)
    array.flush()
    names = pl.Series([f"k{c}" for c in range(classes)])
    table = pl.DataFrame(
        {"k": names.gather(np.arange(images) % classes), "split": pl.repeat("test", images, eager=True)}
    )
    seal(folder, Card("noise", "images", SHAPE, ("k",), schemes=("split",)), table)
    return folder


def cost(folder: Path, case: dict[str, int]) -> tuple[float, float]:
    place = collection(folder / "collection", case["images"], case["classes"])
    command = [sys.executable, "-m", "handful", "eval", "protonet", str(place), "--untrained", "--no-cache"]
    command += ["--tasks", str(case["tasks"]), "--out", str(folder / "run"), "-s", "net=conv4:filters=16"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    facts = json.loads((folder / "run" / "run.json").read_text())
    return facts["seconds"]["total"], facts["peak_memory_mb"]


def main() -> None:
    judged = quiet()
    with tempfile.TemporaryDirectory() as scratch:
        base = cost(Path(scratch) / "base", BASE)
        print(f"base {BASE}: {base[0]:.2f} s, {base[1]:.0f} MB", flush=True)
        for what in BASE:
            case = {**BASE, what: 10 * BASE[what]}
            if what == "classes":
                case["images"] = 10 * case["images"]  # as many images per class as before
            time, memory = cost(Path(scratch) / what, case)
            print(f"{what} x 10 ({case}): {time:.2f} s, {memory:.0f} MB", flush=True)
            verdict(f"ten times the {what}: time", time / base[0], 10.5, judged, at_least=False)
            verdict(f"ten times the {what}: memory", memory / base[1], 2, judged, at_least=False)


if __name__ == "__main__":
    main()
