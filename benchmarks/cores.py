"""Embedding on every core against one core, in the same run, and whether the bits are the same.

    python benchmarks/cores.py [--net conv4] [--images 8192] [--size 32]

Batches go to as many cores as the machine gives this process, each with one thread. Best of three, in turns.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from machine import quiet, verdict

from handful.cores import cores
from handful.nets import build, features
from handful.nets.compute import Compute


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default="conv4")
    parser.add_argument("--images", type=int, default=8192)
    parser.add_argument("--size", type=int, default=32)
    options = parser.parse_args()
    judged, given = quiet(), cores()
    shape = (options.size, options.size, 3)
    net = build(options.net, shape, 0)
    images = np.random.default_rng(0).integers(0, 256, (options.images, *shape), dtype=np.uint8)
    best: dict[int, float] = {}
    found: dict[int, torch.Tensor] = {}
    for _ in range(3):
        for n in dict.fromkeys((1, given)):
            features.cores = lambda n=n: n
            start = time.perf_counter()
            with Compute().here():
                found[n] = features.embed_images(net, images, Compute())
            best[n] = min(best.get(n, np.inf), time.perf_counter() - start)
    print(f"{options.images / best[1]:,.0f} images/s on one core, {options.images / best[given]:,.0f} on {given}")
    print(f"the same bits: {torch.equal(found[1], found[given])}")
    verdict(f"{given} cores against one", best[1] / best[given], 0.9 * given, judged)


if __name__ == "__main__":
    main()
