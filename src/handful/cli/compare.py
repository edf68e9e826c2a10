"""handful compare"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.options import Json, emit

app = typer.Typer(add_completion=False)


@app.command()
def compare(
    first: Annotated[Path, typer.Argument(help="A run's folder.")],
    second: Annotated[Path, typer.Argument(help="Another run's folder, on the same tasks.")],
    metric: Annotated[str | None, typer.Option("--metric", help="Column to compare.")] = None,
    cscc: Annotated[
        bool, typer.Option("--cscc", help="Accuracy of the first run, without labels, over that of the second.")
    ] = False,
    json: Json = False,
) -> None:
    """Difference of two runs on the same tasks, with its interval and a sign-flip test; or their CSCC.

    Examples:

    handful compare runs/protonet runs/matchingnet

    handful compare runs/protonet runs/matchingnet --metric balanced --json

    handful compare runs/clustered runs/protonet --cscc
    """
    from handful.runs import Run

    a, b = Run.open(first), Run.open(second)
    if cscc:
        from handful.runs.cscc import cscc_of

        found = cscc_of(a, b, metric)
        emit({"unlabelled": a.method, "labelled": b.method, **found.as_dict()}) if json else print(
            f"CSCC {found}: {a.method} without labels over {b.method} with them, {found.n} tasks"
        )
        return
    result = a.compare(b, metric)
    if json:
        emit({"first": a.method, "second": b.method, "p": result.p, "tie": result.tie, **result.difference.as_dict()})
        return
    print(f"{a.method} {a.estimate(metric)}; {b.method} {b.estimate(metric)}; difference {result}")
