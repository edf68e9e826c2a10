"""All compositional methods on the embedded world: (colour, glyph), (ground, glyph), (border, glyph) pairs.

    python benchmarks/rlcl_world.py --out docs/results/rlcl-world.md [--pairs colour] [--seeds 3] [--steps 200] [--only NAME ...]

Primitives of train, valid and test are disjoint; the grid of pairs is masked so that about 1.3 seen pairs fall on a
primitive. Each method is trained once a seed, at 5 shots, and tested at 5, 3 and 1; MAML, whose steps cost eight times
those of the others, for 60 steps. Rows are kept in a JSON-lines file
beside the table, and a run that was stopped goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import handful as hf
from handful.methods.contract import make
from handful.tasks.pairs import Pairs, references

SHOTS = (5, 3, 1)
FIRST = ("colour", "ground", "border")
SMALL = {"net": "conv4:filters=32"}
METHODS: dict[str, tuple[str, dict]] = {
    "MAML": ("pair-maml", {"inner_steps": 3, "test_steps": 5, "schedule.tasks": 1, "schedule.steps": 60}),
    "ANIL": ("pair-anil", {"inner_steps": 3, "test_steps": 10, "schedule.tasks": 1}),
    "ProtoNet": ("pair-protonet", {}),
    "ProtoNet, pooled": ("pair-protonet", {"net": "conv4:filters=32,pool=1"}),
    "RelationNet": ("pair-relationnet", {}),
    "Baseline": ("pair-baseline", {}),
    "Baseline++": ("pair-baseline++", {}),
    "VisualProd": ("visualprod", {"hidden": 64}),
    "RedWine": ("redwine", {"hidden": 128}),
    "SymNet": ("symnet", {"rep": 64, "hidden": 64}),
    "CGE": ("cge", {"hidden": 128, "dim": 64}),
    "refined-ProtoNet": ("refined-protonet", {}),
}


def world(first: str) -> hf.Collection:
    others = tuple(f for f in FIRST if f != first)
    return hf.world(label=(first, "glyph"), mask=0.16, images=20, splits=(0.5, 0.25, 0.25), size=32, fixed=others)


def measure(first: str, label: str, seed: int, steps: int, tasks: int) -> list[dict]:
    collection = world(first)
    name, options = METHODS[label]
    given = {**SMALL, "schedule.steps": steps, "schedule.seed": seed, "schedule.augment": (), **options}
    if make(name).trains == "tasks":
        steps = given["schedule.steps"]
        given |= {"schedule.validate_every": steps // 3, "schedule.validate_tasks": 40}
    else:
        given |= {"schedule.batch": 64}
    start = time.monotonic()
    learner = make(name, **given).meta_fit(Pairs(collection.train), Pairs(collection.valid))
    seconds = time.monotonic() - start
    rows = []
    for shots in SHOTS:
        run = hf.evaluate(learner, Pairs(collection.test, shots=shots), n=tasks, seed=seed)
        means = {
            c: float(np.nanmean(run.frame[c].to_numpy())) for c in run.frame.columns if c.startswith(("p1", "p2", "u_"))
        }
        means |= {c: run.estimate(c).value for c in ("unseen", "seen", "hm", "p1_hm", "p2_hm", "confusion")}
        rows.append(
            {"first": first, "method": label, "seed": seed, "steps": steps, "shots": shots, "seconds": seconds} | means
        )
    return rows


def table(rows: list[dict]) -> str:
    lines = [
        "| pairs | K | method | UA | SA | HM | primitive 1 HM | primitive 2 HM | U→S / U→U |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for first in FIRST:
        for shots in SHOTS:
            for label in METHODS:
                own = [r for r in rows if (r["first"], r["shots"], r["method"]) == (first, shots, label)]
                if not own:
                    continue
                cells = []
                for column in ("unseen", "seen", "hm", "p1_hm", "p2_hm"):
                    each = 100 * np.asarray([r[column] for r in own])
                    spread = f" ± {each.std(ddof=1):.1f}" if len(each) > 1 else ""
                    cells.append(f"{each.mean():.1f}{spread}")
                to_s, to_u = (np.mean([r[c] for r in own]) for c in ("u_to_s", "u_to_u"))
                cells.append(f"{to_s / to_u:.2f}" if to_u else "inf")
                lines.append(f"| {first}, glyph | {shots} | {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", nargs="*", default=list(FIRST), choices=FIRST)
    parser.add_argument("--only", nargs="*", default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=64)
    options = parser.parse_args()
    kept = options.out.with_suffix(".jsonl")
    kept.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.is_file() else []
    for seed in range(options.seeds):
        for first in options.pairs:
            for label in options.only:
                if any((r["first"], r["method"], r["seed"]) == (first, label, seed) for r in rows):
                    continue
                new = measure(first, label, seed, options.steps, options.tasks)
                rows += new
                with open(kept, "a", encoding="utf-8") as stream:
                    stream.write("".join(json.dumps(r) + "\n" for r in new))
                print(
                    f"{first} {label} {seed}: {new[0]['seconds']:.0f} s, HM {[round(100 * r['hm'], 1) for r in new]}",
                    flush=True,
                )
                head = "".join(
                    f"- {f}, glyph: {references(Pairs(world(f).test), 500)['seen_pairs_a_primitive']:.2f} seen pairs a primitive\n"
                    for f in options.pairs
                )
                head += f"\nMean ± standard deviation over training seeds, {options.tasks} tasks each.\n"
                options.out.write_text(head + "\n" + table(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
