"""How many pair episodes are drawn in a second on one core, from 556 pairs of 52 x 195 primitives and 18,000 images.

python benchmarks/pairs.py [--seconds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from handful.data.collection import Card, Collection, as_table
from handful.tasks.pairs import Pairs, references

FIRST, SECOND, PAIRS, IMAGES = 52, 195, 556, 18_000


def collection() -> Collection:
    """The size of RLCL-ATTR's test part; which pairs exist is random."""
    cells = np.random.default_rng(0).permutation(FIRST * SECOND)[:PAIRS]
    own = cells[np.arange(IMAGES) % PAIRS]
    table = as_table({"a": own // SECOND, "o": own % SECOND, "split": ["test"] * IMAGES})
    card = Card("pairs", "images", (1, 1, 1), ("a", "o"), schemes=("split",), hash="0" * 64)
    return Collection(card, table, np.zeros((IMAGES, 1, 1, 1), dtype=np.uint8))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    seconds = parser.parse_args().seconds
    rule = Pairs(collection().test)
    rule.check()
    drawn, wall, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < seconds:
        drawn += len(rule.draw_block(1, drawn, drawn + 64))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(
        json.dumps({"episodes": drawn, "per_second": drawn / wall, "per_cpu_second": drawn / cpu, **references(rule)})
    )


if __name__ == "__main__":
    main()
