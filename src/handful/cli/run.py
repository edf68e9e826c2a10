"""handful run"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from handful.cli.groups import Computing, Working, spread
from handful.cli.options import OUTPUT, TASKS, TRAINING, WORK, Json, Profile, emit, profiled, usable_folder

app = typer.Typer(add_completion=False)

TABLE = "Which table"


@app.command()
@spread
def run(
    recipe: Annotated[str, typer.Argument(help="A TOML file, or a packaged name (handful ls recipes).")],
    scale: Annotated[
        str | None,
        typer.Option(
            "--scale",
            help="How long: quick (for two cores) or paper (as published), where both are.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    variants: Annotated[
        list[str] | None,
        typer.Option("--with", help="A variant of the table, such as words; may be repeated.", rich_help_panel=TABLE),
    ] = None,
    collection: Annotated[
        str | None, typer.Option("--collection", help="Run it on this collection instead.", rich_help_panel=TABLE)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Folder for models and runs; what is there is not done again.", rich_help_panel=OUTPUT
        ),
    ] = None,
    tasks: Annotated[
        int | None,
        typer.Option(
            "--tasks",
            "--n",
            min=1,
            help="Number of tasks in each cell, instead of the recipe's.",
            rich_help_panel=TASKS,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps",
            min=1,
            help="At most this many steps in every stage of training: to see a recipe run.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    answers: Annotated[
        bool, typer.Option("--answers", help="Keep every answer beside each run's table.", rich_help_panel=OUTPUT)
    ] = False,
    shard: Annotated[
        str | None,
        typer.Option(
            "--shard",
            help="Do one piece of the table, such as 3/16; the jobs of an array share --out.",
            rich_help_panel=WORK,
        ),
    ] = None,
    gather: Annotated[
        bool, typer.Option("--gather", help="Put the table together from the shards in --out.", rich_help_panel=WORK)
    ] = False,
    working: Working = Working(),
    profile: Profile = False,
    computing: Computing = Computing(),
    json: Json = False,
) -> None:
    """Fill a recipe's table, reported numbers beside measured ones; trainings and evaluations share the engine's workers.

    Examples:

    handful run spine/quick --collection world --workers 2

    handful run metacoco/table2 --scale paper --collection packed/metacoco --out runs/table2

    handful run rlcl/table1 --with act --with words --steps 2 --tasks 4

    handful run metacoco/table6 --collection world --out table --shard 3/16
    """
    from handful.report.tables import recipe_text
    from handful.runs.recipe import read_recipe, run_recipe, shortened
    from handful.runs.shards import parse_shard

    usable_folder(out)
    piece = parse_shard(shard) if shard is not None else None
    wanted = read_recipe(recipe, scale, variants or ())
    if steps is not None:
        wanted = shortened(wanted, steps)
    where = working.start()
    with profiled(profile, out, where.workers):
        result = run_recipe(
            wanted,
            collection=collection,
            out=out,
            compute=computing.compute(threads=wanted.threads),
            engine=where,
            cache=not working.no_cache,
            tasks=tasks,
            answers=answers,
            shard=piece,
            gather=gather,
            say=lambda text: print(text, file=sys.stderr),
        )
    where.close()
    if piece is not None and not result.runs:
        print(f"shard {shard} has nothing to do: the table has fewer rows")
    elif json:
        emit({"recipe": wanted.title, "collection": result.collection.id, "rows": result.frame.to_dicts()})
    else:
        print(recipe_text(result))
