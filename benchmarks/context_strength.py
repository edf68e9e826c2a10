"""The planted truth of context shift: the more the ground follows the class in training, the larger the IID-OOD gap.

    python benchmarks/context_strength.py [--steps 300] [--tasks 300] [--strengths 0 0.5 0.9 1] [--seeds 0 1]

On the world with the ground following the training class at each strength, ProtoNet, Baseline and R2D2 are trained and
asked iid, ood and ood-conflict tasks of the test classes, whose grounds do not depend on the class.
"""

from __future__ import annotations

import argparse

import numpy as np
import polars as pl
import torch

import handful as hf
from handful.methods.contract import make
from handful.metrics.base import mean_interval
from handful.report.tables import markdown
from handful.tasks.nway import NWay
from handful.tasks.rule import make as make_rule

RULES = ("iid", "ood", "ood-conflict")


def gaps(
    strength: float,
    methods: tuple[str, ...],
    *,
    steps: int,
    tasks: int,
    seed: int,
    classes: int = 60,
    net: str = "conv4",
) -> dict[str, dict[str, np.ndarray]]:
    """For each method the accuracies of every task under the three rules, after a short training at one strength."""
    world = hf.world(ground=strength, classes=classes, images=120, size=32, contexts=6, train_contexts=6)
    train = NWay(world.train, 5, 5, 5)
    out: dict[str, dict[str, np.ndarray]] = {}
    for name in methods:
        schedule = {"steps": steps, "seed": seed}
        if name == "baseline":
            schedule |= {"augment": (), "batch": 50}
        learner = make(name, net=net, schedule=schedule).meta_fit(train)
        out[name] = {}
        for rule in RULES:
            run = hf.evaluate(learner, make_rule(rule, world.test, ways=5, shots=5, queries=10), n=tasks)
            out[name][rule] = run.frame["accuracy"].to_numpy()
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--strengths", type=float, nargs="+", default=[0.0, 0.5, 0.9, 1.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--methods", nargs="+", default=["protonet", "baseline", "r2d2"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for strength in options.strengths:
        for seed in options.seeds:
            found = gaps(strength, tuple(options.methods), steps=options.steps, tasks=options.tasks, seed=seed)
            for method, by_rule in found.items():
                row: dict[str, object] = {"strength": strength, "method": method, "seed": seed}
                for rule in RULES:
                    row[rule] = str(mean_interval(by_rule[rule]))
                for rule in RULES[1:]:
                    row[f"iid - {rule}"] = str(mean_interval(by_rule["iid"] - by_rule[rule]))
                rows.append(row)
                print(row, flush=True)
    print("\n" + markdown(pl.DataFrame(rows).sort("method", "seed", "strength")))


if __name__ == "__main__":
    main()
