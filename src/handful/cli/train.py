"""handful train"""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from handful.cli.groups import Computing, Drawing, spread
from handful.cli.options import OUTPUT, TRAINING, WORK, Json, Profile, Set, emit, in_order, parse_settings, profiled

app = typer.Typer(add_completion=False)


@app.command()
@spread
def train(
    method: Annotated[str, typer.Argument(help="Method by name (handful ls methods).")],
    collection: Annotated[str, typer.Argument(help="Packed folder, world:..., or a folder of images.")],
    out: Annotated[Path, typer.Option("--out", help="Model folder to write.", rich_help_panel=OUTPUT)],
    drawing: Drawing = Drawing(queries=5),
    setting: Set = None,
    track: Annotated[
        list[str] | None,
        typer.Option(
            "--track",
            help="Where to log; may be repeated: csv, tensorboard, wandb:project=NAME, mlflow.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Seed of the training, as -s schedule.seed.", rich_help_panel=TRAINING),
    ] = None,
    track_to: Annotated[
        Path | None,
        typer.Option(
            "--track-to", help="Folder of the trackers' files (OUT.track by default).", rich_help_panel=OUTPUT
        ),
    ] = None,
    computing: Computing = Computing(),
    compile_: Annotated[
        bool, typer.Option("--compile", help="Train the backbone through torch.compile.", rich_help_panel=WORK)
    ] = False,
    sync_norm: Annotated[
        bool,
        typer.Option(
            "--sync-norm", help="Under torchrun on CUDA: batch norm over all processes' images.", rich_help_panel=WORK
        ),
    ] = False,
    profile: Profile = False,
    json: Json = False,
) -> None:
    """Meta-train a method on the train split; a killed training goes on from its checkpoint.

    Examples:

    handful train protonet world --out model -s net=conv4 -s schedule.steps=200 --track csv

    handful train r2d2 packed/photos --out model --ways 5 --shots 1 -s schedule.validate_every=100

    torchrun --nproc-per-node 2 -m handful train protonet world --out model -s schedule.tasks=4
    """
    in_order("train", method, collection)

    from handful.data.opening import open_collection
    from handful.errors import BadInput
    from handful.files import write_atomically
    from handful.methods import distributed
    from handful.methods.tracking import track as tracked
    from handful.report.figures import loss_curve
    from handful.runs.learners import learner_of, named, validation

    if track_to is not None and not track:
        raise BadInput("--track-to is where the trackers of --track write; name one, as in --track csv")
    chosen = named(method, parse_settings(setting), seed)
    if computing.device == "cuda" and "LOCAL_RANK" in os.environ:
        computing = dataclasses.replace(computing, device=f"cuda:{os.environ['LOCAL_RANK']}")
    compute = computing.compute(compile="inductor" if compile_ else "", sync_norm=sync_norm)
    first = int(os.environ.get("RANK", "0")) == 0
    keep = out.parent / f".{out.name}.training"
    # A kill between the model and the end of the command leaves both; the same command then goes on and writes it again.
    unfinished = (keep / "checkpoint.pt").is_file() and (out / "model.json").is_file()
    if out.exists() and not unfinished and any(out.iterdir() if out.is_dir() else [out]):
        raise BadInput(f"{out} exists and is not empty; name another folder or remove it first")
    source = open_collection(collection)
    tasks = drawing.rule_on(source, "train")
    valid = validation(chosen, tasks)
    log_folder = track_to or out.parent / f"{out.name}.track"
    with (
        profiled(profile and first, keep),
        tracked(*((track or ()) if first else ()), folder=log_folder, name=out.name) as tracking,
    ):
        learner = learner_of(chosen, train=tasks, valid=valid, compute=compute, training=keep)
    distributed.leave()
    if not first:
        return
    if track and not tracking.steps:
        print(f"handful: {method} logged nothing to its trackers, because it takes no logged steps", file=sys.stderr)
    learner.save(out)
    for name in ("log.csv", "profile.json"):
        if (keep / name).is_file():
            data = (keep / name).read_bytes()
            write_atomically(out / name, lambda t, data=data: t.write_bytes(data))  # type: ignore[misc]
    if (out / "log.csv").is_file():
        drawn = loss_curve(out / "log.csv")
        write_atomically(out / "loss.svg", lambda t: t.write_text(drawn, encoding="utf-8"))
    shutil.rmtree(keep, ignore_errors=True)
    facts = {"model": str(out), "method": method, "trained_on": tasks.part.id}
    emit(facts) if json else print(f"trained {method} on {tasks.part.id}; model in {out}")
