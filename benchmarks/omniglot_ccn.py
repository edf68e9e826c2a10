"""Omniglot-CCN: evaluation alphabets clustered whole, Centroid Networks against CCN, with the time of both.

    python benchmarks/omniglot_ccn.py packed/omniglot32 --out docs/results/omniglot-ccn.md [--alphabets 3] [--steps 600]

The collection is Omniglot at 32x32 (handful data pack OMNIGLOT packed/omniglot32 --as omniglot --size 32 --grey), the scheme
`background`. Both methods train on the same 30 alphabets for as many tasks, both on their published architectures; the
paper trains far longer, so accuracies are lower than its own. CCN then trains a network on every alphabet (150 passes, as
published); Centroid Networks embed it and run Sinkhorn K-means. Seconds are the processor's, of one thread.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import handful as hf
from handful.methods.contract import Learner, make
from handful.metrics.clustering import ClusteringScores as Score
from handful.tasks.alphabet import WholeGroup
from handful.tasks.clustering import Clustering

PAPER = {
    "K-means, pixels": "21.7",
    "CCN (KCL)": "82.4",
    "CCN (MCL)": "83.3",
    "Centroid Networks, conv4": "86.8 ± 0.6",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--alphabets", type=int, default=3)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--losses", nargs="*", default=["mcl"], choices=["kcl", "mcl"])
    options = parser.parse_args()
    compute = hf.Compute(threads=1)
    omniglot = hf.open(options.folder)
    train = hf.tasks.NWay(omniglot.part("train", "background"), ways=20, shots=4, queries=1)
    schedule = {"schedule.steps": options.steps, "schedule.select": "last"}
    milestones = (int(0.6 * options.steps), int(0.8 * options.steps))
    rows: dict[str, tuple[list[float], list[float], float]] = {}

    def measured(label: str, learner: Learner, training: float) -> None:
        rule = Clustering(
            of=WholeGroup(omniglot.part("test", "background"), group="alphabet", queries=0), mode="clustering"
        )
        scores, seconds = [], []
        for episode in rule.draw_block(0, 0, options.alphabets):
            task = rule.read(episode)
            start = time.process_time()
            found = learner.fit(task.support).support_scores()
            seconds.append(time.process_time() - start)
            scores.append(Score().row(episode, found, found)["clustering"])
            print(f"{label}: {episode.shape[0]} characters, {scores[-1]:.3f}, {seconds[-1]:.1f} s", flush=True)
        rows[label] = (scores, seconds, training)
        write(rows, options)

    measured("K-means, pixels", make("kmeans", net="pixels").untrained(omniglot.card.shape, compute=compute), 0.0)
    start = time.process_time()
    halve = {"schedule.halve_every": max(1, options.steps // 5)}
    method = make("centroid", net="conv4", center=0.1, eval_conditional="sinkhorn", **schedule, **halve)
    learner = method.meta_fit(hf.tasks.NWay(train.part, ways=20, shots=5, queries=5), compute=compute)
    measured("Centroid Networks, conv4", learner, time.process_time() - start)
    for loss in options.losses:
        start = time.process_time()
        method = make("ccn", loss=loss, adapt=True, **schedule, **{"schedule.milestones": milestones})
        measured(f"CCN ({loss.upper()})", method.meta_fit(train, compute=compute), time.process_time() - start)


def write(rows: dict[str, tuple[list[float], list[float], float]], options: argparse.Namespace) -> None:
    lines = [
        f"First {options.alphabets} evaluation alphabets, once each; {options.steps} training tasks per method; one thread.",
        "",
        "| method | clustering accuracy | paper (20 alphabets, long training) | training, s | an alphabet, s | times Centroid Networks |",
        "|---|---|---|---|---|---|",
    ]
    base = np.mean(rows["Centroid Networks, conv4"][1]) if "Centroid Networks, conv4" in rows else float("nan")
    for label, (scores, seconds, training) in rows.items():
        ratio = np.mean(seconds) / base
        lines.append(
            f"| {label} | {100 * np.mean(scores):.1f} | {PAPER.get(label, '')} | {training:.0f} | "
            f"{np.mean(seconds):.2f} | {ratio:.2g} |"
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
