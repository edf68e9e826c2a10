"""Tasks a second of closed-form heads at evaluation, on cached embeddings: whole chunks against one task a call.

    python benchmarks/closed_form_heads.py [--tasks 256] [--rounds 5] [--width 64] [HEAD ...]

5-way 5-shot, 15 queries per class, features of the width that conv4 gives at 28 pixels. Three ways from image numbers to
scores: chunks of 64 tasks, as evaluate does it; the learner's fit and predict once a task; and the bare head once a task.
One thread; rounds alternate; seconds are the processor's; medians are shown.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import torch

from handful import registry
from handful.data.collection import Card, Collection, as_table
from handful.methods.answering import CHUNK, one_by_one
from handful.methods.batch import pad
from handful.methods.contract import make
from handful.runs.embedding import EmbeddedRows
from handful.runs.scoring import ScoringJob, embedded_scores
from handful.tasks.nway import NWay

HEADS = ("protonet", "matchingnet", "r2d2", "frn", "rfs-simple", "dn4", "covamnet", "tpn")


def cached(width: int, classes: int = 20, each: int = 40, seed: int = 0) -> Collection:
    """A collection of features as a ReLU network leaves them."""
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(classes), each)
    features = np.maximum(rng.normal(0.5, 1, (classes, width))[label] + rng.normal(0, 1, (len(label), width)), 0)
    table = as_table({"kind": [f"k{c:02d}" for c in label]})
    card = Card("cached", "features", (width,), ("kind",), hash="0" * 64)
    return Collection(card, table, features.astype(np.float32))


def measure(name: str, n: int, rounds: int, width: int) -> tuple[list[float], float]:
    """Median tasks a second of the three ways, and the largest difference of their scores."""
    collection = cached(width)
    rule = NWay(collection.whole, 5, 5, 15)
    learner = make(name, net="pixels").untrained(collection.card.shape, 5)
    features = np.asarray(collection.array)
    stored = EmbeddedRows(np.arange(len(features)))
    stored.put(slice(None), features[..., None, None] if learner.method.maps else features, None, file=False)
    job = ScoringJob(learner, rule, ("accuracy",), (0,), n, False, stored)
    episodes = rule.draw_block(0, 0, n)

    def chunks() -> list[np.ndarray]:
        return [s for at in range(0, n, CHUNK) for s, _ in embedded_scores(job, episodes[at : at + CHUNK])]

    def contract() -> list[np.ndarray]:
        return [one_by_one(learner, rule, e)[0] for e in episodes]

    def head() -> list[np.ndarray]:
        out = []
        for e in episodes:
            batch = pad([(stored.of(e.support), e.support_labels, stored.of(e.query))], [e.shape], [e.seed])
            out.append(learner.head(batch)[0][0].numpy())
        return out

    ways = (chunks, contract, head)
    answers = [way() for way in ways]
    apart = max(float(np.abs(a - b).max()) for other in answers[1:] for a, b in zip(answers[0], other, strict=True))
    speeds: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        for way, speed in zip(ways, speeds, strict=True):
            start = time.process_time()
            way()
            speed.append(n / (time.process_time() - start))
    return [statistics.median(s) for s in speeds], apart


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("heads", nargs="*", default=[h for h in HEADS if h in registry.table("methods")])
    parser.add_argument("--tasks", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, default=64)
    options = parser.parse_args()
    torch.set_num_threads(1)
    ratios: tuple[list[float], list[float]] = ([], [])
    print(
        "| head | chunks, tasks/s | fit + predict, tasks/s | times | bare head, tasks/s | times | largest difference |"
    )
    print("|" + "---|" * 7)
    for name in options.heads:
        (fast, contract, head), apart = measure(name, options.tasks, options.rounds, options.width)
        ratios[0].append(fast / contract)
        ratios[1].append(fast / head)
        row = f"{fast:,.0f} | {contract:,.0f} | {fast / contract:.1f} | {head:,.0f} | {fast / head:.1f} | {apart:.0e}"
        print(f"| {name} | {row} |", flush=True)
    print(f"\nmedian over heads: {statistics.median(ratios[0]):.1f} and {statistics.median(ratios[1]):.1f} times")


if __name__ == "__main__":
    main()
