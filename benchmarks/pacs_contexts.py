"""IID, OOD and OOD-conflict on a packed concept x context collection, with a frozen backbone's prototypes.

    python benchmarks/pacs_contexts.py PACKED_PACS [--net lite0] [--tasks 600] [--repeats 5] > table.md

Every image is embedded once; all three rules draw the same classes and the same support, so gaps are paired.
"""

from __future__ import annotations

import argparse
import dataclasses

import torch

import handful as hf
from handful.data.collection import Collection
from handful.methods.contract import make
from handful.metrics.context import by_context, gap
from handful.nets import build
from handful.nets.compute import Compute
from handful.nets.features import embed_rows
from handful.report.tables import markdown
from handful.tasks.rule import make as make_rule

RULES = ("iid", "ood", "ood-conflict")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection")
    parser.add_argument("--net", default="lite0")
    parser.add_argument("--tasks", type=int, default=600)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--ways", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    images = hf.open(options.collection)
    net = build(options.net, images.card.shape)
    features = embed_rows(net, images, images.whole.rows, Compute())
    card = dataclasses.replace(images.card, kind="features", shape=(features.shape[1],), hash=images.card.hash)
    collection = Collection(card, images.table, features)
    learner = make("nearest-centroid", net="pixels").untrained(card.shape)

    import polars as pl

    rows, contexts = [], []
    for shots in (1, 5):
        runs = {
            name: hf.evaluate(
                learner,
                make_rule(name, collection.whole, ways=options.ways, shots=shots, queries=15),
                n=options.tasks,
                repeats=options.repeats,
            )
            for name in RULES
        }
        row = {"task": f"{options.ways}-way {shots}-shot"}
        for name in RULES:
            row[name] = str(runs[name].estimate())
        for name in RULES[1:]:
            row[f"iid - {name}"] = str(gap(runs["iid"].frame, runs[name].frame).difference)
        for name in RULES:
            row[f"worst, {name}"] = str(runs[name].estimate("worst_context"))
        rows.append(row)
        for name in RULES:
            for r in by_context(runs[name].frame).sort("context").iter_rows(named=True):
                cell = f"{100 * r['value']:.2f} ± {50 * (r['high'] - r['low']):.2f}"
                contexts.append({"task": row["task"], "context": r["context"], "rule": name, "cell": cell})
    print(
        f"{images.id}, {options.net} prototypes, {options.tasks} tasks x {options.repeats} drawing seeds, 15 queries\n"
    )
    print(markdown(pl.DataFrame(rows)), "\n")
    print(markdown(pl.DataFrame(contexts).pivot("rule", index=["task", "context"], values="cell")))


if __name__ == "__main__":
    main()
