"""Drawing 5-way 5-shot episodes from 60,000 images in 100 classes, on one core: python benchmarks/drawing.py"""

from __future__ import annotations

import time

import numpy as np
from machine import quiet, verdict

from handful.data.collection import Card, Collection, as_table
from handful.tasks import AnyWay, NWay


def main() -> None:
    judged = quiet()
    table = as_table({"k": np.repeat(np.arange(100), 600).astype(str)})
    card = Card("index", "images", (1, 1, 1), ("k",), hash="0" * 64)
    part = Collection(card, table, np.zeros((60_000, 1, 1, 1), np.uint8)).whole
    for rule, target in ((NWay(part, 5, 5, 15), 20_000), (AnyWay(part), 0)):
        rule.draw_block(0, 0, 64)
        start = time.perf_counter()
        for block in range(0, 16_384, 256):
            rule.draw_block(0, block, block + 256)
        verdict(f"{rule.name} episodes a second", 16_384 / (time.perf_counter() - start), target, judged)


if __name__ == "__main__":
    main()
