"""handful studio"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.options import TRAINING

app = typer.Typer(add_completion=False)


@app.command()
def studio(
    folder: Annotated[Path, typer.Argument(help="Folder with your photos; made if it is not there.")] = Path("photos"),
    net: Annotated[
        str,
        typer.Option(
            "--net", help="Frozen network (handful ls nets); auto is lite2:size=260.", rich_help_panel=TRAINING
        ),
    ] = "auto",
    seed: Annotated[int, typer.Option("--seed", help="Seed of all that is drawn at random.")] = 0,
    port: Annotated[
        int | None, typer.Option("--port", min=1, max=65535, help="Port on this machine (8765, or any free one).")
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
) -> None:
    """Open a folder of photos as a page: label a few, see what to expect, carry a classifier away.

    Examples:

    handful studio photos/

    handful studio holiday/ --no-browser --port 9000
    """
    from handful.studio.serving import serve

    serve(folder, net, port, browser, seed)
