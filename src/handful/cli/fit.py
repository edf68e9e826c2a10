"""handful fit"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.options import OUTPUT, TRAINING, BatchSize, Device, Json, Precision, Threads, compute_of, emit

app = typer.Typer(add_completion=False)


@app.command()
def fit(
    photos: Annotated[Path, typer.Argument(help="Folder (or zip) with one folder of photos for each class.")],
    out: Annotated[Path, typer.Option("--out", help="Model folder to write.", rich_help_panel=OUTPUT)],
    net: Annotated[
        str,
        typer.Option(
            "--net", help="Frozen network (handful ls nets); auto is lite0:size=224.", rich_help_panel=TRAINING
        ),
    ] = "auto",
    head: Annotated[
        str,
        typer.Option("--head", help="prototypes or linear; auto chooses by leave-one-out.", rich_help_panel=TRAINING),
    ] = "auto",
    refuse: Annotated[
        float,
        typer.Option(
            "--refuse",
            help="Share of the classes' own photos that may be called none of these.",
            rich_help_panel=TRAINING,
        ),
    ] = 0.1,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of the bootstrap of the expected accuracy.", rich_help_panel=TRAINING)
    ] = 0,
    device: Device = "cpu",
    precision: Precision = "float32",
    batch: BatchSize = 8,
    threads: Threads = 1,
    json: Json = False,
) -> None:
    """Make a classifier from a handful of photos, and say what to expect of it.

    Examples:

    handful fit photos --out model

    handful fit photos --out model --net lite0:size=224 --head prototypes --refuse 0.05
    """
    from handful.errors import BadInput
    from handful.photos.model import fit as fit_photos
    from handful.photos.model import is_photo_model

    if out.exists() and not is_photo_model(out) and any(out.iterdir() if out.is_dir() else [out]):
        raise BadInput(f"{out} exists and is not a classifier of photos; name another folder or remove it first")
    compute = compute_of(device, precision, batch, threads)
    model = fit_photos(photos, net=net, head=head, refuse=refuse, seed=seed, compute=compute)
    model.save(out)
    emit({"model": str(out), **model.report.as_dict()}) if json else print(f"{model.report}\nmodel in {out}")
