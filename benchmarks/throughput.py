"""Embedding throughput of `evaluate` as a share of the bare network's forward throughput at the same batch size.

    python benchmarks/throughput.py [--net conv4] [--images 6000] [--size 84]

Bare is the network alone on one prepared float batch, over and over. `evaluate` reads the images from a packed collection on disk,
normalises them and embeds each once; the share is that of its embedding phase (reading included). Best of three, in turns.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from machine import quiet, verdict

from handful.data.collection import Card, Collection, as_table
from handful.methods import make
from handful.runs import evaluate
from handful.tasks import NWay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default="conv4")
    parser.add_argument("--images", type=int, default=3000)
    parser.add_argument("--size", type=int, default=84)
    parser.add_argument("--batch", type=int, default=64)
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["HANDFUL_CORES"] = "1"  # the bare network has one core too
    judged = quiet()
    side, n = options.size, options.images
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (n, side, side, 3), dtype=np.uint8)
    table = as_table({"k": (np.arange(n) % max(5, n // 30)).astype(str)})
    learner = make("protonet", net=options.net).untrained((side, side, 3))
    with tempfile.TemporaryDirectory() as folder:
        card = Card("noise", "images", (side, side, 3), ("k",))
        source = Collection(card, table, images).save(Path(folder) / "noise")
        rule = NWay(source.whole, 5, 5, 15)
        batch = learner.backbone.normalise(torch.from_numpy(images[: options.batch]))
        bare = whole = embedding = 0.0
        for _ in range(3):
            with torch.inference_mode():
                learner.backbone(batch)
                start = time.perf_counter()
                for _ in range(max(1, n // options.batch // 2)):
                    learner.backbone(batch)
                bare = max(bare, max(1, n // options.batch // 2) * options.batch / (time.perf_counter() - start))
            start = time.perf_counter()
            run = evaluate(learner, rule, max(64, n // 10), 0, cache=False)
            spent = time.perf_counter() - start
            seen = len(
                np.unique(np.concatenate([np.r_[e.support, e.query] for e in rule.draw_block(0, 0, max(64, n // 10))]))
            )
            seconds = run.facts["seconds"]
            embedding = max(embedding, seen / (seconds["read"] + seconds["embed"]))
            whole = max(whole, seen / spent)
    print(
        f"{options.net} at {side}: bare {bare:.0f}, embedding {embedding:.0f}, all of evaluate {whole:.0f} images per second"
    )
    verdict(f"{options.net} at {side}: embedding of evaluate / bare forward", embedding / bare, 0.85, judged)
    verdict(f"{options.net} at {side}: all of evaluate / bare forward", whole / bare, 0, judged)


if __name__ == "__main__":
    main()
