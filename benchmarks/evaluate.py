"""Evaluating a frozen learner on 3,000 tasks: against decoding and embedding again for each task, and against embedding once.

    python benchmarks/evaluate.py [--peer-tasks 60]

The peer runs the same learner task by task with images decoded from PNG files; it is timed on a few tasks and scaled up, its
cost a task being constant.
"""

from __future__ import annotations

import argparse
import io
import time

import numpy as np
import torch
from machine import quiet, verdict
from PIL import Image

from handful.data.collection import Card, Collection, as_table
from handful.methods import make
from handful.nets.compute import Compute
from handful.nets.features import embed_rows
from handful.runs import evaluate
from handful.tasks import NWay, Query, Support


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer-tasks", type=int, default=60)
    options = parser.parse_args()
    torch.set_num_threads(1)
    judged = quiet()
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (12_000, 32, 32, 3), dtype=np.uint8)
    table = as_table({"k": np.repeat(np.arange(100), 120).astype(str)})
    source = Collection(Card("noise", "images", (32, 32, 3), ("k",), hash="0" * 64), table, images)
    learner = make("protonet").untrained((32, 32, 3))
    rule = NWay(source.whole, 5, 5, 15)
    embed_rows(learner.backbone, source, np.arange(640), Compute())

    start = time.perf_counter()
    embed_rows(learner.backbone, source, np.arange(len(source)), Compute())
    once = time.perf_counter() - start
    start = time.perf_counter()
    run = evaluate(learner, rule, 600, 0, repeats=5)
    ours = time.perf_counter() - start

    files = [_png(image) for image in images]
    start = time.perf_counter()
    for number in range(options.peer_tasks):
        episode = rule.draw(0, number)
        support = np.stack([np.asarray(Image.open(io.BytesIO(files[i]))) for i in episode.support])
        query = np.stack([np.asarray(Image.open(io.BytesIO(files[i]))) for i in episode.query])
        learner.fit(Support(episode.shape, support, episode.support_labels)).predict(Query(query))
    peer = (time.perf_counter() - start) / options.peer_tasks * 3000
    print(
        f"embed 12,000 images once {once:.2f} s; evaluate 3,000 tasks {ours:.2f} s; task by task from PNG {peer:.1f} s; {run.facts['seconds']}"
    )
    verdict("task by task / evaluate", peer / ours, 20, judged)
    verdict("evaluate / embedding once", ours / once, 1.3, judged, at_least=False)


def _png(image: np.ndarray) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "PNG")
    return stream.getvalue()


if __name__ == "__main__":
    main()
