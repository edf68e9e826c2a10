"""How many images of the world are drawn in a second, on one core, first reading included.

    python benchmarks/world.py [--images 10000] [--size 32] [--styles 1] [--json]

Everything is counted: planning the table, glyph fields, ground tiles, compositing. The aim is 10,000 images of 32x32 in
10 s. On a machine that is busy with something else the speed is printed, but not judged.
"""

from __future__ import annotations

import argparse
import json
import os
import time

import numpy as np

AIM = 1000.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--styles", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    cores = os.cpu_count() or 1

    from handful.data.world import world

    begin, spent = time.perf_counter(), time.process_time()
    drawn = world(size=options.size, styles=options.styles, images=-(-options.images // 400))
    planned = time.perf_counter() - begin
    rows = np.random.default_rng(0).permutation(len(drawn))[: options.images]
    drawn.read(rows)
    cold = time.perf_counter() - begin
    used = time.process_time() - spent
    begin = time.perf_counter()
    drawn.read(rows)
    again = time.perf_counter() - begin
    busy = load > 0.5 * cores
    facts = {
        "images": len(rows),
        "size": options.size,
        "seconds_to_plan": round(planned, 3),
        "seconds_in_all": round(cold, 3),
        "processor_seconds": round(used, 3),
        "images_a_second": round(len(rows) / cold, 1),
        "seconds_to_read_again": round(again, 4),
        "times_the_aim": round(len(rows) / cold / AIM, 2),
        "load_before": round(load, 2),
        "cores": cores,
        "verdict": "busy machine, not judged" if busy else "fast enough" if len(rows) / cold >= AIM else "too slow",
    }
    if options.json:
        print(json.dumps(facts))
    else:
        for name, value in facts.items():
            print(f"{name.replace('_', ' '):>24}  {value}")


if __name__ == "__main__":
    main()
