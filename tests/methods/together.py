"""Run by torchrun: trains some methods on however many processes there are; the first writes losses and weights' sums."""

from __future__ import annotations

import json
import sys

import torch

from handful.cli import main
from handful.data.collection import open_packed
from handful.methods import make
from handful.methods.distributed import join
from handful.tasks import NWay

NET = "conv4:filters=8,norm={}"
SCHEDULE = {
    "steps": 6,
    "tasks": 4,
    "batch": 24,
    "optimiser": "sgd",
    "rate": 0.05,
    "validate_every": 3,
    "validate_tasks": 4,
    "augment": [],
}


def trained(collection, keep, name, norm="none", **more):
    """Losses step by step, validation scores, and the sum of every trained tensor."""
    options = {"net": NET.format(norm), "schedule": {**SCHEDULE, **more}}
    if name == "fo-maml":
        options |= {"inner_steps": 1, "test_steps": 1}
    train, valid = NWay(collection.train, 3, 1, 2), NWay(collection.valid, 3, 1, 2)
    folder = keep / f"{name}-{norm}-{'-'.join(map(str, more.values()))}"
    state = make(name, **options).meta_fit(train, valid, keep=folder).state()
    rows = []
    if (folder / "log.csv").is_file():
        rows = [line.split(",") for line in (folder / "log.csv").read_text().splitlines()[1:]]
    sums = {k: float(v.double().sum()) for k, v in state.items()}
    return {"loss": [float(r[1]) for r in rows], "valid": [r[3] for r in rows], "sums": sums}


def all_of(collection, keep):
    out = {name: trained(collection, keep, name) for name in ("protonet", "baseline", "fo-maml")}
    out["protonet, accumulated"] = trained(collection, keep, "protonet", accumulate=2, tasks=2)
    out["protonet, batch norm"] = trained(collection, keep, "protonet", "batch", accumulate=2, tasks=2)
    return out


if __name__ == "__main__":
    from pathlib import Path

    torch.set_num_threads(1)
    source, keep = Path(sys.argv[1]), Path(sys.argv[2])
    world = join()
    found = all_of(open_packed(source), keep / f"rank{world.rank}")
    (keep / f"rank{world.rank}.json").write_text(json.dumps(found))
    refused = ""
    try:
        trained(open_packed(source), keep / "odd", "protonet", tasks=3)
    except Exception as error:
        refused = f"{type(error).__name__}: {error}"
    (keep / f"refused{world.rank}").write_text(refused)
    words = [
        "train",
        "protonet",
        str(source),
        "--out",
        str(keep / "model"),
        "--ways",
        "3",
        "--shots",
        "1",
        "--queries",
        "2",
    ]
    words += ["-s", f"net={NET.format('none')}", "-s", "schedule.steps=3", "-s", "schedule.tasks=2", "--profile"]
    try:
        main(words)
    except SystemExit as end:
        assert not end.code
