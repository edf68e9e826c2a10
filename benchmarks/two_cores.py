"""An evaluation of 3,000 tasks on every core against one core, by the default engine, and whether the tables are the same.

    python benchmarks/two_cores.py [--tasks 3000] [--images 12000] [METHOD ...]

ProtoNet by default; best of three, in turns. The target is that more cores are never slower than one.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from machine import quiet, verdict

from handful.cores import cores
from handful.data.collection import Card, Collection, as_table
from handful.methods import make
from handful.nets import features
from handful.runs import evaluate
from handful.runs.every_core import EveryCore
from handful.tasks import NWay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", default=["protonet"])
    parser.add_argument("--tasks", type=int, default=3000)
    parser.add_argument("--images", type=int, default=12_000)
    options = parser.parse_args()
    judged, given = quiet() and cores() > 1, cores()
    images = np.random.default_rng(0).integers(0, 256, (options.images, 32, 32, 3), dtype=np.uint8)
    table = as_table({"k": (np.arange(options.images) % 100).astype(str)})
    source = Collection(Card("noise", "images", (32, 32, 3), ("k",), hash="0" * 64), table, images)
    for name in options.methods:
        learner = make(name).untrained((32, 32, 3))
        best: dict[int, float] = {}
        frames = {}
        for _ in range(3):
            for n in dict.fromkeys((1, given)):
                features.cores = lambda n=n: n
                engine = EveryCore(n)
                start = time.perf_counter()
                run = evaluate(learner, NWay(source.whole, 5, 5, 15), options.tasks, 0, engine=engine, cache=False)
                best[n] = min(best.get(n, np.inf), time.perf_counter() - start)
                engine.close()
                frames[n] = run.frame
        if not frames[1].equals(frames[given]):
            raise SystemExit(f"{name}: the tables differ")
        print(f"{name}: {best[1]:.2f} s on one core, {best[given]:.2f} s on {given}, the same table")
        verdict(f"{name}, {options.tasks:,} tasks: one core / {given} cores", best[1] / best[given], 1.0, judged)


if __name__ == "__main__":
    main()
