"""A worker process for the queue's tests: real queue, leases and heartbeats, a run that only sleeps and counts."""

from __future__ import annotations

import datetime as dt
import sys
import time
from pathlib import Path

import polars as pl

from handful.challenge.db import Database
from handful.challenge.failures import Failure
from handful.challenge.running import Outcome
from handful.challenge.scores import summary
from handful.challenge.spec_file import read
from handful.challenge.worker import Worker


def main() -> None:
    url, root, state, seconds = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4])
    planted = sys.argv[5:] != ["steady"]

    def run(lease, secret, place, progress):
        with open(state / "began.txt", "a") as file:
            file.write(f"{lease.submission} {lease.worker}\n")
        for step in range(4):
            time.sleep(seconds / 4)
            progress(step + 1, 4)
        if planted and lease.submission % 5 == 0:
            return Outcome(failure=Failure("FIT_ERROR", "fit", "planted"), seconds=seconds)
        row = {"repeat": 0, "task": 0, "ways": 2, "shots": 1, "dataset": "a", "queries": 4, "accuracy": 0.5}
        frame = pl.DataFrame([{**row, "balanced": 0.5, "normalised": lease.submission / 100}])
        return Outcome(frame=frame, facts=summary(frame), seconds=seconds)

    worker = Worker(Database(url), read(root / "challenge.toml"), root, state, run=run, lease=dt.timedelta(seconds=8))
    worker.handle_signals()
    print("ready", flush=True)
    worker.forever(idle=0.1)


if __name__ == "__main__":
    main()
