"""handful run"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from handful.cli.options import BatchSize, Device, Json, Precision, Workers, compute_of, emit

app = typer.Typer(add_completion=False)


@app.command()
def run(
    recipe: Annotated[str, typer.Argument(help="A TOML file, or a packaged name (handful ls recipes).")],
    collection: Annotated[str | None, typer.Option("--collection", help="Run it on this collection instead.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for models and runs; what is there is not done again.")
    ] = None,
    tasks: Annotated[int | None, typer.Option("--tasks", "--n", help="Tasks a cell, instead of the recipe's.")] = None,
    workers: Workers = 1,
    device: Device = "cpu",
    precision: Precision = "float32",
    batch: BatchSize = 64,
    threads: Annotated[int | None, typer.Option("--threads", help="Threads, instead of the recipe's.")] = None,
    json: Json = False,
) -> None:
    """Fill a recipe's table, reported numbers beside measured ones.

    Example: handful run spine/quick --collection world
    """
    from handful.report.tables import recipe_text
    from handful.runs.recipe import read_recipe, run_recipe

    wanted = read_recipe(recipe)
    result = run_recipe(
        wanted,
        collection=collection,
        out=out,
        compute=compute_of(device, precision, batch, threads or wanted.threads),
        workers=workers,
        tasks=tasks,
        say=lambda text: print(text, file=sys.stderr),
    )
    if json:
        emit({"recipe": wanted.title, "collection": result.collection.id, "rows": result.frame.to_dicts()})
    else:
        print(recipe_text(result))
