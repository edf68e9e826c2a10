"""handful report figures"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from handful.cli.groups import Computing, spread
from handful.cli.options import OUTPUT, TASKS, TRAINING, Json, emit, usable_folder

app = typer.Typer(add_completion=False)


@app.command()
@spread
def figures(
    collection: Annotated[str, typer.Argument(help="Packed folder, or world:...; contexts for figure 3.")],
    out: Annotated[
        Path,
        typer.Option("--out", help="Folder for the drawings, their numbers and the models.", rich_help_panel=OUTPUT),
    ],
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method", help="Method to show; may be repeated (the paper's eight by default).", rich_help_panel=TRAINING
        ),
    ] = None,
    net: Annotated[
        list[str] | None,
        typer.Option(
            "--net", help="Backbone; may be repeated. Figures 3, 5 and 7 show the first.", rich_help_panel=TRAINING
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            "--steps",
            min=0,
            help="Number of training steps of each method (metacoco/table6's by default).",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    tasks: Annotated[
        int, typer.Option("--tasks", "--n", min=2, help="Number of tasks for each point.", rich_help_panel=TASKS)
    ] = 600,
    queries: Annotated[
        int, typer.Option("--queries", min=1, help="Number of query images of each class.", rich_help_panel=TASKS)
    ] = 15,
    ways: Annotated[
        str, typer.Option("--ways", help="Ways of figures 5 and 7, with commas.", rich_help_panel=TASKS)
    ] = "5,10,15,20",
    shots: Annotated[
        str, typer.Option("--shots", help="Shots of figures 5 and 7, with commas.", rich_help_panel=TASKS)
    ] = "1,3,5,7,10",
    seed: Annotated[int, typer.Option("--seed", help="Seed of training and of the tasks.", rich_help_panel=TASKS)] = 0,
    repeats: Annotated[
        int,
        typer.Option("--repeats", min=1, help="Number of drawing seeds for each point.", rich_help_panel=TASKS),
    ] = 1,
    computing: Computing = Computing(),
    json: Json = False,
) -> None:
    """Train methods and draw how they do on iid and ood tasks, with each backbone, number of ways and of shots.

    Methods that learn from tasks are trained on five ways, and once more on ten for the ten-way bars.

    These are Figures 3 to 7 of the context-shift paper for a collection of your own, as SVG, with every number in figures.csv.

    Examples:

    handful report figures world:images=160,classes=100 --out figures --tasks 100

    handful report figures packed/pacs --out figures --method protonet --method r2d2 --net conv4 --ways 2,5 --shots 1,5
    """
    from handful import registry
    from handful.data.opening import open_collection
    from handful.options import parse_spec
    from handful.report.metacoco import METHODS, metacoco_figures, trained
    from handful.runs.learners import choose_part

    usable_folder(out)
    for name in net or ():
        registry.get("nets", parse_spec(name)[0])
    many_ways, many_shots = numbers(ways, "--ways"), numbers(shots, "--shots")
    opened = open_collection(collection)
    learners, ten_way = (
        trained(
            opened,
            method or METHODS,
            net or ("conv4",),
            steps,
            out / "models",
            ways=trained_on,
            compute=computing.compute(),
            seed=seed,
            say=lambda text: print(text, file=sys.stderr),
        )
        for trained_on in (5, 10)
    )
    sweep = metacoco_figures(
        learners,
        choose_part(opened, "test", None),
        out,
        ways=many_ways,
        shots=many_shots,
        queries=queries,
        tasks=tasks,
        seed=seed,
        repeats=repeats,
        ten_way=ten_way,
    )
    drawn = sorted(p.name for p in out.glob("figure*.svg"))
    if json:
        emit({"collection": opened.id, "drawn": drawn, "left_out": sweep.left_out, "rows": sweep.rows})
        return
    print(f"{opened.id}: {len(drawn)} drawings and figures.csv in {out}")
    for what, why in sweep.left_out.items():
        print(f"left out {what}: {why}")


def numbers(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers with commas between them."""
    from handful.errors import BadInput

    try:
        found = tuple(int(x) for x in text.split(","))
    except ValueError as error:
        raise BadInput(f"{option} takes whole numbers with commas between them, not {text!r}") from error
    if min(found) < 1:
        raise BadInput(f"{option} takes numbers of at least 1, not {text!r}")
    return found
