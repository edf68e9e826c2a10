"""CSCC on a planted truth: the world with crossed factors, its label factor fixed or changing from task to task.

    python benchmarks/cscc_world.py [--steps 400] [--label colour] [--out FILE.md]

Both rows have the same images, backbone, number of training tasks and seeds; only what a class means differs.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import handful as hf
from handful.audits.cscc import trained_consistency
from handful.tasks.crossed import Crossed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--tasks", type=int, default=600)
    parser.add_argument("--label", default="colour")
    parser.add_argument("--net", default="conv4")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    world = hf.world(crossed=True)
    lines = [
        "| label factor | with labels | without labels | CSCC | half interval if independent |",
        "|---|---|---|---|---|",
    ]
    facts = {}
    for name, label in ((f"always {args.label}", args.label), ("another in each task", "")):
        start = time.monotonic()
        found = trained_consistency(
            Crossed(world.train, 5, 5, 5, label=label),
            Crossed(world.test, 5, 5, 15, label=label),
            net=args.net,
            steps=args.steps,
            n=args.tasks,
            compute=hf.Compute(threads=args.threads),
        )
        low, high = 100 * found.value.low, 100 * found.value.high
        value = f"{100 * found.value.value:.1f} ({low:.1f} to {high:.1f})"
        lines.append(
            f"| {name} | {found.supervised} | {found.unsupervised} | {value} | {100 * found.independent:.1f} |"
        )
        facts[name] = {**found.as_dict(), "seconds": time.monotonic() - start}
        print(lines[-1], flush=True)
    head = f"# CSCC of the crossed world ({world.id}), {args.net}, {args.steps} training tasks, {args.tasks} test tasks"
    text = "\n".join([head, "", *lines, ""])
    print(text)
    print(json.dumps(facts))
    if args.out:
        args.out.write_text(text)


if __name__ == "__main__":
    main()
