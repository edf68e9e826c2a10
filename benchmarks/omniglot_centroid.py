"""Centroid Networks on real Omniglot (Vinyals split, 28x28) or miniImageNet, with the paper's numbers beside.

    python benchmarks/omniglot_centroid.py FOLDER --minutes 15 --threads 2 --out results/omniglot-centroid
    python benchmarks/omniglot_centroid.py FOLDER --data miniimagenet --minutes 15 --threads 2 --out results/mini-centroid

FOLDER holds Omniglot's two zips and splits/vinyals (or miniImageNet's images and csv files), or a packed collection. Trains Centroid Networks for --minutes
(20-way 5-shot tasks, 5 queries per class), Prototypical Networks for half of it, and shorter trainings to show what fewer
tasks cost; a killed run goes on from --out. Writes table.md, the training logs and one JSON with every number.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import handful as hf
from handful.data.collection import Collection
from handful.data.pack import pack
from handful.methods.clustering.centroid import CentroidNet
from handful.methods.clustering.clusterer import with_weights_of
from handful.methods.clustering.references import KMeans, ProtoKMeans
from handful.methods.embedded import Embedded, EmbeddedLearner
from handful.methods.metric.protonet import ProtoNet
from handful.metrics.cscc import cscc
from handful.tasks.clustering import Clustering

PAPER = {
    "omniglot": {
        ("K-means, pixels", 5): {"clustering": "45.2 ± 0.5"},
        ("K-means, pixels", 20): {"clustering": "30.7 ± 0.2"},
        ("K-means, ProtoNet features: plain, 1 start", 5): {"clustering": "83.5 ± 0.8"},
        ("K-means, ProtoNet features: plain, 1 start", 20): {"clustering": "76.8 ± 0.4"},
        ("Centroid Networks", 5): {"clustering": "99.6 ± 0.1", "unsupervised": "99.1 ± 0.1"},
        ("Centroid Networks", 20): {"clustering": "99.1 ± 0.1", "unsupervised": "98.1 ± 0.1"},
        ("ProtoNet (supervised)", 5): {"accuracy": "99.7"},
        ("ProtoNet (supervised)", 20): {"accuracy": "98.9"},
        ("CSCC", 5): {"cscc": "99.4"},
        ("CSCC", 20): {"cscc": "99.2"},
    },
    "miniimagenet": {
        ("K-means, pixels", 5): {"clustering": "41.4 ± 0.4"},
        ("K-means, ProtoNet features: plain, 1 start", 5): {"clustering": "48.7 ± 0.5"},
        ("Centroid Networks", 5): {"clustering": "64.5 ± 0.7", "unsupervised": "55.3 ± 0.5"},
        ("ProtoNet (supervised)", 5): {"accuracy": "68.7 ± 0.5"},
        ("CSCC", 5): {"cscc": "80.5 ± 0.9"},
    },
}
SIZE = {"omniglot": 28, "miniimagenet": 84}
WAYS = {"omniglot": (5, 20), "miniimagenet": (5,)}
TITLE = {
    "omniglot": "Omniglot, Vinyals split, {size}x{size}, conv4: clustering without labels",
    "miniimagenet": "miniImageNet (the part of it that was given), {size}x{size}, conv4: clustering without labels",
}
PAPER_TRAINING = {
    "omniglot": "The paper: 100,000 5-way tasks.",
    "miniimagenet": "The paper: 84x84, all 600 images per class, pretraining on 30-way tasks, then 30,000 5-way tasks.",
}


def main() -> None:
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    images = collection(args.folder, args.out / "packed", args.data)
    compute = hf.Compute(threads=args.threads)
    train = hf.tasks.NWay(images.train, ways=20, shots=5, queries=5)
    steps = args.steps or plan_steps(train, compute, args.minutes, args.out / "steps.json")
    centroid = CentroidNet(train_conditional=args.conditional, center=args.center)
    learner, spent = trained("centroid", centroid, steps, train, compute, args.out)
    times = {"Centroid Networks": (learner.method.schedule.steps, spent)}
    protonet, spent = trained("protonet", ProtoNet(), max(1, steps // 2), train, compute, args.out)
    times["ProtoNet"] = (protonet.method.schedule.steps, spent)
    rows: list[dict[str, str]] = []
    numbers: dict[str, dict[str, float]] = {}
    for ways in WAYS[args.data]:
        rule = hf.tasks.NWay(images.test, ways=ways, shots=5, queries=15)
        hidden = Clustering(of=rule)
        alone = numbers.setdefault(f"{ways}-way", {})
        runs = {
            "K-means, pixels": (KMeans().untrained(images.card.shape, compute=compute), hidden),
            **{
                f"K-means, ProtoNet features: {init}, {starts} start{'s' * (starts > 1)}": (
                    with_weights_of(protonet, ProtoKMeans(init=init, starts=starts)),
                    hidden,
                )
                for init, starts in (("plain", 1), ("greedy", 1), ("plain", 10), ("greedy", 10))
            },
            "Sinkhorn K-means, ProtoNet features": (with_weights_of(protonet, CentroidNet()), hidden),
            "K-means, Centroid Networks' features: plain, 1 start": (with_weights_of(learner, ProtoKMeans()), hidden),
            "Centroid Networks": (with_weights_of(learner, CentroidNet(eval_conditional="sinkhorn")), hidden),
            "Centroid Networks, softmax conditionals": (with_weights_of(learner, CentroidNet()), hidden),
            "Centroid Networks, unweighted centroids": (with_weights_of(learner, CentroidNet(hard=True)), hidden),
            "ProtoNet (supervised)": (protonet, rule),
            "Centroid Networks' embedding (supervised)": (learner, rule),
        }
        frames = {}
        for label, (model, tasks) in runs.items():
            run = hf.evaluate(model, tasks, n=args.tasks, seed=0)
            frames[label] = run.frame
            rows.append(row(label, ways, run))
            alone[label] = {r["metric"]: r["value"] for r in run.summary().to_dicts()}  # type: ignore[assignment]
            print(rows[-1], flush=True)
        ratio = cscc(
            frames["Centroid Networks"]["unsupervised"].to_numpy(),
            frames["ProtoNet (supervised)"]["accuracy"].to_numpy(),
        )
        alone["CSCC"] = ratio.as_dict()  # type: ignore[assignment]
        rows.append({"row": "CSCC", "ways": str(ways), "cscc": str(ratio)})
    cost = fewer(args, steps, centroid, train, images, compute, times)
    write(args, images.card.shape[0], rows, cost, times)
    facts = {"arguments": {k: str(v) for k, v in vars(args).items()}, "steps": steps, "numbers": numbers}
    (args.out / "numbers.json").write_text(json.dumps(facts, indent=1) + "\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", choices=tuple(PAPER), default="omniglot")
    parser.add_argument("--minutes", type=float, default=15, help="of training Centroid Networks")
    parser.add_argument("--steps", type=int, default=0, help="training tasks, instead of --minutes")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--center", type=float, default=1.0)
    parser.add_argument("--conditional", choices=("softmax", "sinkhorn"), default="softmax")
    parser.add_argument("--shorter", default="16,4", help="also train a 16th and a 4th of the tasks; '' for none")
    parser.add_argument("--out", type=Path, default=Path("results/omniglot-centroid"))
    return parser.parse_args()


def collection(folder: Path, packed: Path, data: str) -> Collection:
    if (folder / "card.json").is_file():
        return hf.open(folder)
    if (packed / "card.json").is_file():
        return hf.open(packed)
    return pack(folder, packed, "omniglot" if data == "omniglot" else "auto", size=SIZE[data]).collection


def plan_steps(train: hf.tasks.NWay, compute: hf.Compute, minutes: float, memo: Path) -> int:
    """How many tasks fit into the time; kept, so that a resumed training has the same schedule."""
    if memo.is_file():
        return int(json.loads(memo.read_text())["steps"])
    method = CentroidNet(schedule=hf.Schedule(steps=8, select="last"))
    method.meta_fit(train, compute=compute)
    start = time.monotonic()
    method.meta_fit(train, compute=compute)
    steps = max(10, int(0.95 * minutes * 60 / ((time.monotonic() - start) / 8)))
    memo.write_text(json.dumps({"steps": steps}))
    return steps


def trained(
    name: str, method: Embedded, steps: int, train: hf.tasks.NWay, compute: hf.Compute, out: Path
) -> tuple[EmbeddedLearner, float]:
    """A training of ``steps`` tasks, the rate halved five times; read back if it is there already."""
    folder = out / name
    if (folder / "model" / "model.json").is_file():
        return hf.load(folder / "model", compute), float(json.loads((folder / "seconds.json").read_text()))
    schedule = hf.Schedule(steps=steps, rate=1e-3, halve_every=max(1, -(-steps // 6)), select="last")
    start = time.monotonic()
    learner = method.with_options(schedule=schedule).meta_fit(train, compute=compute, keep=folder)
    seconds = time.monotonic() - start
    (folder / "seconds.json").write_text(json.dumps(seconds))
    learner.save(folder / "model")
    return learner, seconds  # type: ignore[return-value]


def fewer(args, steps, method, train, images, compute, times) -> list[str]:
    """Accuracy by the number of training tasks, each training with its own full schedule."""
    lines = []
    for part in sorted({int(x) for x in args.shorter.split(",") if x} | {1}, reverse=True):
        n = max(1, steps // part)
        name = "centroid" if part == 1 else f"centroid-{part}th"
        learner, seconds = trained(name, method, n, train, compute, args.out)
        cells = [f"{learner.method.schedule.steps:,}", f"{seconds / 60:.1f}"]
        for ways in WAYS[args.data]:
            rule = Clustering(of=hf.tasks.NWay(images.test, ways=ways, shots=5, queries=15))
            run = hf.evaluate(
                with_weights_of(learner, CentroidNet(eval_conditional="sinkhorn")), rule, n=args.tasks, seed=0
            )
            cells += [str(run.estimate("clustering")), str(run.estimate("unsupervised"))]
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
    return lines


def row(label: str, ways: int, run: hf.Run) -> dict[str, str]:
    shown = ("clustering", "unsupervised", "accuracy", "nmi", "ari")
    known = [c for c in shown if c in run.frame.columns]
    return {"row": label, "ways": str(ways), **{c: str(run.estimate(c)) for c in known}}


def write(args, size: int, rows: list[dict[str, str]], cost: list[str], times: dict) -> None:
    lines = [
        f"# {TITLE[args.data].format(size=size)}",
        "",
        f"{args.tasks} test tasks, 5 shots, 15 queries per class, 95% intervals over tasks, one training seed, {args.threads} threads. "
        f"Trained on 20-way 5-shot tasks with 5 queries per class, Adam 1e-3 halved five times, center loss {args.center:g}, "
        f"{args.conditional} conditionals. {PAPER_TRAINING[args.data]}",
        "",
        "| training | tasks | minutes |",
        "|---|---|---|",
        *(f"| {name} | {n:,} | {seconds / 60:.1f} |" for name, (n, seconds) in times.items()),
        "",
    ]
    columns = ("clustering", "unsupervised", "accuracy", "cscc")
    lines += ["| ways | method | measure | here | paper |", "|---|---|---|---|---|"]
    for r in rows:
        for c in columns:
            if c in r:
                reported = PAPER[args.data].get((r["row"], int(r["ways"])), {}).get(c, "")
                name = {"accuracy": "supervised accuracy", "cscc": "CSCC"}.get(c, f"{c} accuracy")
                lines.append(f"| {r['ways']} | {r['row']} | {name} | {r[c]} | {reported} |")
    lines += [
        "",
        "What fewer training tasks cost (each with its own full schedule):",
        "",
        "| tasks | minutes |" + "".join(f" {w}-way clustering | {w}-way unsupervised |" for w in WAYS[args.data]),
        "|---|---|" + "---|---|" * len(WAYS[args.data]),
        *cost,
        "",
    ]
    (args.out / "table.md").write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
