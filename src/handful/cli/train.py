"""handful train"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.options import (
    BatchSize,
    Device,
    Json,
    Precision,
    Queries,
    RuleName,
    RuleSet,
    Scheme,
    Set,
    Shots,
    Threads,
    Ways,
    compute_of,
    emit,
    parse_settings,
    rule_of,
)

app = typer.Typer(add_completion=False)


@app.command()
def train(
    method: Annotated[str, typer.Argument(help="Method by name (handful ls methods).")],
    collection: Annotated[str, typer.Argument(help="Packed folder, world:..., or a folder of images.")],
    out: Annotated[Path, typer.Option("--out", help="Model folder to write.")],
    ways: Ways = "5",
    shots: Shots = "5",
    queries: Queries = 5,
    rule: RuleName = None,
    rule_set: RuleSet = None,
    scheme: Scheme = None,
    setting: Set = None,
    device: Device = "cpu",
    precision: Precision = "float32",
    batch: BatchSize = 64,
    threads: Threads = 1,
    json: Json = False,
) -> None:
    """Meta-train a method on the train split; a killed training goes on from its checkpoint.

    Example: handful train protonet world --out model -s net=conv4 -s schedule.steps=200
    """
    from handful.data.opening import open_collection
    from handful.data.store import write_atomically
    from handful.errors import BadInput
    from handful.methods import make

    chosen = make(method, **parse_settings(setting))
    compute = compute_of(device, precision, batch, threads)
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise BadInput(f"{out} exists and is not empty; name another folder or remove it first")
    source = open_collection(collection)
    more = parse_settings(rule_set)
    tasks = rule_of(source, "train", scheme, rule, ways, shots, queries, more)
    valid = None
    if source.has("valid") and getattr(chosen, "schedule", None) is not None and chosen.schedule.validate_every:  # type: ignore[attr-defined]
        valid = rule_of(source, "valid", scheme, rule, ways, shots, queries, more)
    keep = out.parent / f".{out.name}.training"
    learner = chosen.meta_fit(tasks, valid, compute=compute, keep=keep)
    learner.save(out)
    if (keep / "log.csv").is_file():
        log = (keep / "log.csv").read_bytes()
        write_atomically(out / "log.csv", lambda t: t.write_bytes(log))
    for path in keep.glob("*") if keep.is_dir() else ():
        path.unlink()
    if keep.is_dir():
        keep.rmdir()
    facts = {"model": str(out), "method": method, "trained_on": tasks.part.id}
    emit(facts) if json else print(f"trained {method} on {tasks.part.id}; model in {out}")
