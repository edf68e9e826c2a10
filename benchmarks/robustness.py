"""How ten methods stand strangers, wrong labels, unequal classes and confusable classes: tables, and a figure of the curves.

    python benchmarks/robustness.py packed/cifar-fs [--tasks 300] [--out docs/results/robustness-cifar-fs]

Four models that come with the library, and six heads on the frozen backbone of one of them (RFS-simple), on the test classes. All
methods are asked the same tasks. Writes OUT.md and OUT.svg.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import handful as hf
from handful.methods.contract import make
from handful.metrics.strangers import SCORES

MODELS = ("protonet", "r2d2", "rfs-simple", "baseline++")
HEADS = ("nearest-centroid", "k-nn", "linear", "cosine", "matchingnet", "r2d2")
NOISE, RATIO, DIFFICULTY = (0.0, 0.2, 0.4, 0.6), (1.0, 5.0, 20.0), (0.0, 0.5, 1.0)


def learners(shape: tuple[int, ...]) -> dict[str, object]:
    found: dict[str, object] = {name: hf.load(f"cifar-fs/{name}") for name in MODELS}
    for name in HEADS:
        frozen = hf.load("cifar-fs/rfs-simple").backbone
        found[f"{name}, RFS features"] = make(name, net=frozen).untrained(shape)
    return found


def curves(part: object) -> dict[str, dict[float, object]]:
    few, many = hf.tasks.NWay(part, 5, 5, 15), hf.tasks.NWay(part, 5, 20, 15)
    return {
        "wrong labels": {x: hf.tasks.Noisy(of=few, noise=x) for x in NOISE},
        "imbalance": {x: hf.tasks.LongTail(of=many, ratio=x) for x in RATIO},
        "difficulty": {x: hf.tasks.Hard(part, 5, 5, 15, difficulty=x) for x in DIFFICULTY},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection")
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path("robustness"))
    options = parser.parse_args()
    source = hf.open(options.collection)
    lines = [
        f"Measured on {source.id}, test classes, 5-way, {options.tasks} tasks per cell, the same for all methods.",
        "",
    ]
    everyone, kinds = learners(source.card.shape), curves(source.test)
    strangers = hf.tasks.Strangers(of=hf.tasks.NWay(source.test, 5, 5, 15))
    heads = [f"AUROC, {s}" for s in SCORES] + ["accepted", "calibration error", "at T", "T"]
    lines += ["| method | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for name, learner in everyone.items():
        run = hf.evaluate(learner, strangers, n=options.tasks, promise=0.1)
        cells = [str(run.estimate(f"auroc/{s}")) if f"auroc/{s}" in run.frame.columns else "" for s in SCORES]
        best = max(
            (s for s in SCORES if f"auroc/{s}" in run.frame.columns), key=lambda s: run.estimate(f"auroc/{s}").value
        )
        cells.append(f"{run.estimate(f'accepted/{best}')} ({best})")
        plain = hf.evaluate(learner, strangers.of, n=options.tasks, metrics="calibration")
        warm = hf.evaluate(learner, strangers.of, n=options.tasks, metrics="calibration", temperature="auto")
        cells += [
            str(plain.estimate("ece")),
            str(warm.estimate("ece")),
            f"{warm.identity['promises']['temperature']:.3g}",
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    figure, axes = plt.subplots(1, len(kinds), figsize=(4 * len(kinds), 3.4), sharey=True)
    for axis, (what, rules) in zip(axes, kinds.items(), strict=True):
        lines += ["", "| method | " + " | ".join(f"{what} {x:g}" for x in rules) + " |", "|---|" + "---:|" * len(rules)]
        for name, learner in everyone.items():
            found = [hf.evaluate(learner, rule, n=options.tasks).estimate("accuracy") for rule in rules.values()]
            lines.append(f"| {name} | " + " | ".join(map(str, found)) + " |")
            print(lines[-1], flush=True)
            axis.plot(list(rules), [100 * e.value for e in found], marker=".", label=name)
        axis.set_xlabel(what)
    axes[0].set_ylabel("accuracy, %")
    axes[-1].legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(options.out.with_suffix(".svg"))
    options.out.with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
