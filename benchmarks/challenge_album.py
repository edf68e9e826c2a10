"""The six baselines through a whole competition on three real data sets: upload, queue, sandbox, feedback, final, board.

    python benchmarks/challenge_album.py ../shared/data/album --out album-challenge

Public: CALTECH and CIFAR; hidden: FRUITS, its classes split between feedback and final. 32x32 pixels, conv4, a few dozen training
steps, five tasks a data set: it shows the whole path, and says nothing about the methods. In the final three seeds are
run and the worst counts. Needs bubblewrap and the extra `serve`.
"""

from __future__ import annotations

import argparse
import csv
import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from handful.challenge import accounts, rules
from handful.challenge.archive import digest
from handful.challenge.baselines import NAMES, baseline
from handful.challenge.db import Database
from handful.challenge.packing import pack_method
from handful.challenge.service import make_app
from handful.challenge.spec_file import TEMPLATE, read
from handful.challenge.tables import export_csv
from handful.challenge.worker import Worker

FEW = {"schedule.steps": 30, "schedule.validate_every": 15, "schedule.validate_tasks": 5}
OPTIONS: dict[str, dict[str, Any]] = {
    "train-from-scratch": {},
    "fine-tuning": {**FEW, "schedule.steps": 80, "schedule.validate_every": 40},
    "matchingnet": FEW,
    "protonet": FEW,
    "fo-maml": {**FEW, "schedule.steps": 10, "schedule.validate_every": 10},
    "metadelta++": {
        **FEW,
        "seconds": 40.0,
        "schedule.steps": 8,
        "schedule.accumulate": 2,
        "schedule.batch": 32,
        "schedule.validate_every": 4,
    },
}


def lay_out(album: Path, root: Path, feedback: int = 15) -> None:
    """Two public data sets; the hidden one's classes split between the feedback and the final phase."""
    for phase, name in (("public", "CALTECH"), ("public", "CIFAR"), ("feedback", "FRUITS"), ("final", "FRUITS")):
        folder = root / "data" / phase
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(album / f"{name}.zip") as archive:
            archive.extractall(folder)
    for phase in ("feedback", "final"):
        path = root / "data" / phase / "FRUITS" / "labels.csv"
        with open(path, newline="", encoding="utf-8") as stream:
            head, *rows = csv.reader(stream)
        at = head.index("CATEGORY")
        first = set(sorted({row[at] for row in rows})[:feedback])
        kept = [row for row in rows if (row[at] in first) == (phase == "feedback")]
        with open(path, "w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([head, *kept])
        named = {row[head.index("FILE_NAME")] for row in kept}
        for image in (path.parent / "images").iterdir():
            if image.name not in named:
                image.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("album", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", type=int, default=5)
    options = parser.parse_args()
    root = options.out.resolve()
    shutil.rmtree(root, ignore_errors=True)
    lay_out(options.album, root)
    text = TEMPLATE.format(name="album", title="Album: any way, any shot").replace(
        "image_size = 128", "image_size = 32"
    )
    text = re.sub(r"baseline = [\d.]+", "baseline = -1", text).replace("memory_mb = 16384", "memory_mb = 4096")
    text = text.replace("tasks_per_dataset = 100", "tasks_per_dataset = 1")
    text = text.replace("tasks_per_dataset = 600", f"tasks_per_dataset = {options.tasks}")
    (root / "challenge.toml").write_text(text, encoding="utf-8")
    challenge, state = read(root / "challenge.toml"), root / "state"
    (state / "submissions").mkdir(parents=True)
    database = Database(f"sqlite:///{root}/challenge.sqlite")
    make_app(challenge, database, root, state)
    with database.writing() as session:
        rules.advance(session, challenge)
        for name in NAMES:
            method, more = baseline(name, net="conv4", **OPTIONS[name])
            more["train"], more["validation_datasets"] = {"ways": 5, "shots": 5, "queries": 10}, 1
            more["valid"]["queries"] = 5
            packed = pack_method(method, state / "submissions" / f"{name}.zip", **more)
            user = accounts.register(session, name.replace("+", "p"), "0123456789", "x@example.org", name)
            user.pseudonym = name
            rules.submit(session, challenge, user, "meta-learning", name, digest(packed), packed.name)
    worker = Worker(database, challenge, root, state)
    plain = worker.run_one

    def told(lease: Any, *rest: Any) -> Any:
        outcome = plain(lease, *rest)
        times = {
            part: round(float(np.median([t[part] for t in outcome.task_seconds])), 3)
            for part in ("load", "fit", "predict", "end")
            if outcome.task_seconds
        }
        print(lease.phase, lease.archive, outcome.score, outcome.failure, f"{outcome.seconds:.0f} s", times, flush=True)
        return outcome

    worker.run_one = told  # type: ignore[method-assign]
    worker.forever(until_empty=True)
    with database.writing() as session:
        rules.advance(session, challenge)
    worker.forever(until_empty=True)
    with database.reading() as session:
        print(export_csv(rules.leaderboard(session, challenge, "final", "meta-learning")))


if __name__ == "__main__":
    main()
