"""Training on every core against one core, in the same run, and whether the trained weights are the same.

    python benchmarks/training_cores.py [--net conv4] [--steps 12] [--size 32]

On tasks: ProtoNet, 10-way 5-shot with 10 queries a class. On batches: RFS-simple, 64 images. One thread in each operation. Best of
three, in turns. The plain way is the network on the whole batch at once, one thread, as it was trained before there were pieces.
"""

from __future__ import annotations

import argparse
import time
from contextlib import nullcontext

import numpy as np
import torch
from machine import quiet, verdict

from handful.cores import cores
from handful.data.collection import Card, Collection, as_table
from handful.methods import make, training
from handful.tasks import NWay

WAYS = {
    "ProtoNet, tasks": ("protonet", {"schedule.tasks": 1}),
    "RFS-simple, batches of 64": ("rfs-simple", {"schedule.batch": 64}),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--net", default="conv4")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--size", type=int, default=32)
    options = parser.parse_args()
    judged, given = quiet() and cores() > 1, cores()
    images = np.random.default_rng(0).integers(0, 256, (2000, options.size, options.size, 3), dtype=np.uint8)
    table = as_table({"k": (np.arange(len(images)) % 50).astype(str)})
    source = Collection(Card("noise", "images", images.shape[1:], ("k",), hash="0" * 64), table, images)
    rule, in_pieces = NWay(source.whole, 10, 5, 10), training.in_pieces
    for title, (name, own) in WAYS.items():
        common = {"net": options.net, "schedule.steps": options.steps, "schedule.validate_every": 0}
        method = make(name, **common, **own)
        best: dict[int, float] = {}
        weights: dict[int, torch.Tensor] = {}
        for _ in range(3):
            for n in dict.fromkeys((0, 1, given)):  # 0: the plain way
                training.in_pieces = in_pieces if n else lambda net, k: nullcontext()
                training.cores = lambda n=n: n
                start = time.perf_counter()
                learner = method.meta_fit(rule)
                best[n] = min(best.get(n, np.inf), time.perf_counter() - start)
                weights[n] = torch.cat([p.detach().flatten() for p in learner.modules.parameters()])
        if not torch.equal(weights[1], weights[given]):
            raise SystemExit(f"{title}: the weights differ")
        told = [f"{seconds / options.steps * 1e3:.0f} ms a step on {n or 'one, plain'}" for n, seconds in best.items()]
        print(f"{title}: {', '.join(told)}")
        verdict(
            f"{title}: training on {given} cores / on one, the same bits", best[1] / best[given], 0.8 * given, judged
        )
        verdict(f"{title}: training in pieces on one core / the plain way", best[0] / best[1], 0.95, judged)


if __name__ == "__main__":
    main()
