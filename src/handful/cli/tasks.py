"""handful tasks"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.groups import Drawing, spread
from handful.cli.options import OUTPUT, Json, Seed, Split, Tasks, emit

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def _tasks() -> None:
    """Draw tasks from a collection, picture them, save and replay them."""


@app.command()
@spread
def draw(
    collection: Annotated[str, typer.Argument(help="Packed folder, world:..., or a folder of images.")],
    drawing: Drawing = Drawing(),
    seed: Seed = 0,
    n: Tasks = 1,
    split: Split = None,
    json: Json = False,
    show: Annotated[
        Path | None, typer.Option("--show", help="Picture the first task in this PNG.", rich_help_panel=OUTPUT)
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the episodes to this file.", rich_help_panel=OUTPUT)
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option("--replay", help="Read the episodes from this file instead of drawing.", rich_help_panel=OUTPUT),
    ] = None,
) -> None:
    """Draw episodes.

    Examples:

    handful tasks draw world --ways 5 --shots 5 --queries 15 --seed 0 --n 3 --json

    handful tasks draw world --rule ood --ways 3 --shots 1 --queries 5 --show task.png

    handful tasks draw world --tasks 100 --save tasks.jsonl
    """
    from handful.data.opening import open_collection
    from handful.tasks.files import read_episodes, write_episodes

    source = open_collection(collection)
    if replay is not None:
        episodes = read_episodes(replay, source)
    else:
        drawn = drawing.rule_on(source, split or "test")
        drawn.check()
        episodes = drawn.draw_block(seed, 0, n)
    if save is not None:
        write_episodes(save, episodes, source)
    if show is not None:
        from handful.data.show import episode_sheet
        from handful.files import write_atomically

        picture = episode_sheet(source, episodes[0])
        write_atomically(show, lambda t: picture.save(t, format="PNG"))
    if json:
        emit({"collection": source.id, "episodes": [e.as_dict() for e in episodes]})
        return
    for e in episodes:
        shape = " x ".join(map(str, e.shape))
        print(f"task {e.number}: {shape} way, {e.shots} shot, {len(e.query)} queries: {', '.join(e.names[0][:8])}")
