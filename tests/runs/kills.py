"""Commands that are killed at random moments after their first result, started again, and end as if nothing had been."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WORLD = "world:classes=20,images=20,size=16"
SRC = Path(__file__).resolve().parents[2] / "src"
PATIENCE = 600


@dataclass(frozen=True)
class Command:
    """A command line; ``progress`` counts what of its work is on the disk, ``result`` reads what must be equal."""

    arguments: tuple[str, ...]
    progress: Callable[[Path], object]
    result: Callable[[Path], object]

    def start(self, out: Path) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), *filter(None, sys.path)])}
        with open(out.parent / "said", "ab") as said:
            command = [sys.executable, "-m", "handful", *self.arguments, "--out", str(out)]
            return subprocess.Popen(command, stdout=said, stderr=said, env=environment, start_new_session=True)


def undisturbed(command: Command, folder: Path) -> object:
    folder.mkdir(parents=True)
    code = command.start(folder / "out").wait(PATIENCE)
    assert code == 0, (folder / "said").read_text()
    return command.result(folder / "out")


def disturbed(command: Command, folder: Path, kills: int, seed: int) -> list[object]:
    """The results of as many whole runs as it takes for so many kills, each at a random moment after new work was kept."""
    dice, done, results = random.Random(seed), 0, []
    while done < kills:
        place = folder / str(len(results))
        place.mkdir(parents=True)
        while True:
            process = command.start(place / "out")
            if done < kills and _killed(command, process, place / "out", dice):
                done += 1
                if _whole(place / "out"):  # killed on its way out, when all was written
                    break
                continue
            code = process.wait(PATIENCE)
            assert code == 0, (place / "said").read_text()
            break
        results.append(command.result(place / "out"))
        assert len(results) <= 2 * kills, "the work is too short to be killed in"
    return results


def _killed(command: Command, process: subprocess.Popen[bytes], out: Path, dice: random.Random) -> bool:
    """Kill it some time after it has kept something new; not if it ends before."""
    before, until = command.progress(out), time.monotonic() + PATIENCE
    while process.poll() is None and command.progress(out) == before:
        assert time.monotonic() < until
        time.sleep(0.002)
    # Moments of writing come often: a chunk or a checkpoint takes some tens of milliseconds.
    time.sleep(dice.random() * 0.4)
    if process.poll() is not None:
        return False
    process.kill()
    process.wait()
    return True


def _whole(out: Path) -> bool:
    """Whether a training is over: its model is there, and what it would go on from is not."""
    return (out / "model.json").is_file() and not (out.parent / f".{out.name}.training").exists()


def _stamp(path: Path) -> object:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _model(out: Path) -> object:
    import polars as pl

    return (out / "model.safetensors").read_bytes(), pl.read_csv(out / "log.csv").rows()


def _table(out: Path) -> object:
    import polars as pl

    return [pl.read_parquet(out / f"{name}.parquet").rows() for name in ("tasks", "answers")]


TRAIN = Command(
    ("train", "protonet", WORLD, "--ways", "3", "--shots", "1", "-s", "net=conv4:filters=8", "-s", "schedule.steps=300",
     "-s", "schedule.checkpoint_every=3", "-s", "schedule.augment=flip", "-s", "schedule.validate_every=50", "-s",
     "schedule.validate_tasks=5"),
    lambda out: _stamp(out.parent / f".{out.name}.training" / "checkpoint.pt"),
    _model,
)  # fmt: skip

EVALUATE = Command(
    (
        "eval",
        "nearest-centroid",
        WORLD,
        "--ways",
        "3",
        "--shots",
        "1",
        "--queries",
        "5",
        "--tasks",
        "12800",
        "--answers",
    ),
    lambda out: len(list((out / "parts").glob("*.parquet"))),
    _table,
)
