"""Two workers of one thread against one of one thread, for a learner that adapts its backbone in every task.

    python benchmarks/workers.py [--chunks 12] [--ray]

Both are the processes engine, so both pay for starting; the tables are compared to the bit. With --ray the same on a Ray cluster
of this machine.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
from machine import quiet, verdict

from handful.data.collection import Card, Collection, as_table
from handful.methods import make
from handful.runs import evaluate
from handful.tasks import NWay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=12, help="chunks of 64 tasks")
    parser.add_argument("--ray", action="store_true")
    options = parser.parse_args()
    judged = quiet() and (os.cpu_count() or 1) >= 2
    rng = np.random.default_rng(0)
    table = as_table({"k": np.repeat(np.arange(20), 20).astype(str)})
    images = rng.integers(0, 256, (400, 28, 28, 1), dtype=np.uint8)
    rule = NWay(Collection(Card("noise", "images", (28, 28, 1), ("k",), hash="0" * 64), table, images).whole, 5, 1, 15)
    learner = make("maml", test_steps=10).untrained((28, 28, 1))
    spent, frames = [], []
    for workers in (1, 2):
        start = time.perf_counter()
        run = evaluate(
            learner, rule, 64 * options.chunks, engine="ray" if options.ray else "processes", workers=workers
        )
        spent.append(time.perf_counter() - start)
        frames.append(run.frame)
        print(f"{workers} worker{'s' * (workers > 1)}: {spent[-1]:.1f} s for {64 * options.chunks} tasks", flush=True)
    if not frames[0].equals(frames[1]):
        raise SystemExit("the tables differ")
    engine = "Ray" if options.ray else "processes"
    verdict(f"MAML at test, {engine}: one worker / two workers", spent[0] / spent[1], 1.7, judged)


if __name__ == "__main__":
    main()
