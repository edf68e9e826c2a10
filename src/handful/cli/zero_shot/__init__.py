"""handful zero-shot: one file a verb."""

from __future__ import annotations

import typer

from handful.cli.zero_shot.analyse import analyse, select
from handful.cli.zero_shot.build import build, hops
from handful.cli.zero_shot.run import pack, run

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def _zero_shot() -> None:
    """Audit, build and run zero-shot benchmarks."""


for _verb in (build, hops, pack, run, analyse, select):
    app.command()(_verb)
