"""handful predict"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from handful.cli.options import OUTPUT, BatchSize, Device, Json, Precision, Threads, compute_of, emit

app = typer.Typer(add_completion=False)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="Model folder that handful fit has written.")],
    images: Annotated[list[Path], typer.Argument(help="Photos, or folders of them.")],
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Also write the answers to this file.", rich_help_panel=OUTPUT)
    ] = None,
    device: Device = "cpu",
    precision: Precision = "float32",
    batch: BatchSize = 8,
    threads: Threads = 1,
    json: Json = False,
) -> None:
    """Say of which class each photo is, how sure that is, or that it is none of these.

    Examples:

    handful predict model new.jpg more/ --csv answers.csv

    handful predict model more/ --json
    """
    from handful.errors import BadInput
    from handful.photos.model import load

    answers = load(model, compute_of(device, precision, batch, threads)).predict(images)
    if not len(answers):
        name, reason = answers.unreadable[0]
        raise BadInput(f"{name} {reason}; give photos that can be read")
    if csv is not None:
        answers.to_csv(csv)
    for name, reason in answers.unreadable:
        print(f"handful: {name} {reason}; it has no answer", file=sys.stderr)
    if json:
        emit({"answers": answers.frame.to_dicts(), "unreadable": dict(answers.unreadable)})
    else:
        print(answers)
