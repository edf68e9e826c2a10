"""PACS as (style, object) pairs on frozen EfficientNet-Lite0 features, 4 primitives a side (chance 1/16).

    python benchmarks/rlcl_pacs.py ../shared/data/pacs/pacs-84.zip --words ../shared/data/words/glove.6B.100d.nouns.txt.gz \
        --out docs/results/rlcl-pacs.md

Methods without a meta-trained part are tested on all 4 x 7 pairs. Those that learn their head (refined-ProtoNet) need other
primitives to learn from, and PACS has four styles only: they learn from three objects (3 primitives a side) and are
tested on the other four, styles shared; rows that the table has already are kept. ProtoNet is shown on the same part. The encoder was trained on ImageNet's photographs.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import handful as hf
from handful.data.collection import Card, Collection, as_table
from handful.data.images import decode
from handful.data.sources import open_source
from handful.methods.contract import make
from handful.nets import build
from handful.nets.compute import Compute
from handful.nets.features import embed_images
from handful.tasks.pairs import Pairs

LEARNED_FROM = ("guitar", "horse", "house")
FROZEN = {
    "ProtoNet": ("pair-protonet", {}),
    "Baseline": ("pair-baseline", {}),
    "Baseline++": ("pair-baseline++", {}),
    "VisualProd": ("visualprod", {"hidden": 128}),
    "RedWine": ("redwine", {"hidden": 128}),
    "SymNet": ("symnet", {"rep": 64, "hidden": 64}),
    "SymNet, GloVe": ("symnet-words", {"rep": 64, "hidden": 64}),
    "CGE": ("cge", {"hidden": 128, "dim": 64}),
    "CGE, GloVe": ("cge-words", {"hidden": 128, "dim": 64}),
}
LEARNED = {
    "ProtoNet (four objects)": ("pair-protonet", {}),
    "refined-ProtoNet": ("refined-protonet", {"hidden": 64}),
    "refined-ProtoNet, GloVe": ("refined-protonet-words", {"hidden": 64}),
}
COLUMNS = ("unseen", "seen", "hm", "p1_hm", "p2_hm", "u_to_s", "u_to_u")


def features(path: Path, each: int, keep: Path) -> Collection:
    """The first ``each`` images of every (style, object), embedded once and kept."""
    if (keep / "card.json").is_file():
        return hf.open(str(keep))
    source = open_source(path)
    by_pair: dict[tuple[str, str], list[str]] = {}
    for name in source.images:
        concept, style = name.split("/")[-3:-1]
        by_pair.setdefault((style, concept), []).append(name)
    chosen = [(pair, name) for pair, names in sorted(by_pair.items()) for name in names[:each]]
    images = np.stack([decode(source.read(name), name, 84, False) for _, name in chosen])
    net = build("lite0", images.shape[1:])
    vectors = embed_images(net, images, Compute()).cpu().numpy()
    style, concept = ([pair[i] for pair, _ in chosen] for i in range(2))
    split = np.where(np.isin(concept, LEARNED_FROM), "train", "test")
    table = as_table({"style": style, "object": concept, "split": split})
    card = Card(
        "pacs-lite0", "features", (vectors.shape[1],), ("style", "object"), schemes=("split",), source=path.name
    )
    return Collection(card, table, vectors.astype(np.float32)).save(keep)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pacs", type=Path)
    parser.add_argument("--words", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--keep", type=Path, default=Path("pacs-lite0"))
    parser.add_argument("--each", type=int, default=40)
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    done = options.out.read_text(encoding="utf-8").splitlines()[2:] if options.out.is_file() else []
    collection = features(options.pacs, options.each, options.keep)
    lines = [
        "| method | UA | SA | HM | style HM | object HM | U→S | U→U | U→S / U→U |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for label, (name, given) in {**FROZEN, **LEARNED}.items():
        if known := [line for line in done if line.startswith(f"| {label} |")]:
            lines += known[:1]
            continue
        words = str(options.words) if name.endswith("-words") else ""
        part = collection.test if label in LEARNED else collection.whole
        method = make(name, net="pixels", **given)
        if label in LEARNED and name != "pair-protonet":
            train = Pairs(collection.train, primitives=3, words=words)
            learner = make(name, net="pixels", **given, **{"schedule.steps": 400}).meta_fit(train)
        else:
            learner = method.untrained(collection.card.shape)
        rule = Pairs(part, primitives=4, words=words)
        run = hf.evaluate(learner, rule, n=options.tasks, repeats=options.repeats)
        cells = [str(run.estimate(c)) for c in COLUMNS] + [f"{run.estimate('confusion').value:.2f}"]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
        print(lines[-1], flush=True)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
