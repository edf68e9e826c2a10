"""Zero-shot accuracy on splits of growing structural ratio, on real features.

    python benchmarks/zero_shot_growing_r.py --features lite0.npz --words glove.txt.gz [--out FOLDER] [--methods a,b]

FEATURES holds images of ImageNet classes (WordNet ids as labels). Classes are dealt into train, valid and a test pool
by seed; learners are fitted once, options chosen on the validation classes, and asked on every split of the pool. With
--models a fitted learner is kept there and used again. Graph methods have the published widths and choose their epochs
up to the published number, which takes minutes a method; --narrow makes layers of 512, --epochs fixes the number.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from handful.audits.zero_shot.figures import growing_figure
from handful.audits.zero_shot.growing import by_level, grow, splits_by_ratio
from handful.data.importers.features import by_classes, read_features
from handful.data.wordnet import wordnet
from handful.methods import load, make
from handful.report.tables import markdown
from handful.tasks.zero_shot import ZeroShot

METHODS = ("trivial", "conse", "devise", "eszsl", "sync", "latem", "cmt", "gcnz", "sgcn", "adgpm")
NARROW: dict[str, tuple[int, ...]] = {"sgcn": (512,), "gcnz": (512, 512, 256, 256, 128), "adgpm": (512,)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--words", type=Path, required=True)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--narrow", action="store_true")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--train", type=int, default=100)
    parser.add_argument("--valid", type=int, default=30)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--levels", type=int, default=5)
    parser.add_argument("--each", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    table = read_features(options.features)
    dealt = np.random.default_rng([options.seed, 7]).permutation(np.unique(table.labels)).tolist()
    train, valid = dealt[: options.train], dealt[options.train : options.train + options.valid]
    pool = sorted(dealt[options.train + options.valid :])
    source = by_classes(table, train, pool, valid).collection(options.features.stem, hash_=f"{options.seed:064d}")
    semantics = f"wordnet:{options.words}"
    rules = {split: ZeroShot(source.part(split), semantics) for split in ("train", "valid", "test")}
    learners, chosen = {}, {}
    for name in options.methods.split(","):
        start = time.monotonic()
        more: dict[str, Any] = {"hidden": NARROW[name]} if options.narrow and name in NARROW else {}
        if options.epochs and name in NARROW:
            more["epochs"] = options.epochs
        kept = options.models / name if options.models else None
        if kept and (kept / "model.json").is_file():
            learners[name] = load(kept)
        else:
            learners[name] = make(name, **more).meta_fit(rules["train"], rules["valid"])
            if kept:
                learners[name].save(kept)
        method = learners[name].method
        chosen[name] = {k: getattr(method, k) for k in method.grid} | {k: getattr(method, k) for k in more}
        print(f"{name}: {time.monotonic() - start:.1f} s {chosen[name]}", file=sys.stderr, flush=True)
    splits = splits_by_ratio(
        wordnet(), train, pool, options.classes, levels=options.levels, each=options.each, seed=options.seed
    )
    frame = grow(learners, rules["test"], splits, seed=options.seed)
    levels = by_level(frame)
    order = ["ceiling", *learners]
    wide = []
    for name in order:
        row: dict[str, str] = {"method": name}
        for one in levels.filter(pl.col("method") == name).iter_rows(named=True):
            row[f"R = {one['ratio']:.2f}"] = f"{100 * one['top1']:.1f} ± {100 * one['half']:.1f}"
        wide.append(row)
    print(markdown(pl.DataFrame(wide)))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        frame.write_csv(options.out / "growing-r.csv")
        ratio = levels.filter(pl.col("method") == order[1])["ratio"].to_numpy()
        lines = {n: tuple(levels.filter(pl.col("method") == n).select("top1", "half").to_numpy().T) for n in order[1:]}
        top = levels.filter(pl.col("method") == "ceiling")["top1"].to_numpy()
        svg = growing_figure(ratio, lines, ceiling=top, chance=1 / options.classes)
        (options.out / "growing-r.svg").write_text(svg)
        (options.out / "growing-r.json").write_text(
            json.dumps({"options": chosen, "levels": levels.to_dicts()}, indent=1)
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
