"""handful zero-shot: one file for each verb."""

from __future__ import annotations

import typer

from handful.cli.zero_shot.analyse import analyse, select
from handful.cli.zero_shot.build import build, hops

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def _zero_shot() -> None:
    """Build zero-shot test splits, and take the scores on one apart."""


for _verb in (build, hops, analyse, select):
    app.command()(_verb)
