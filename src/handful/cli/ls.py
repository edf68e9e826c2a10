"""handful ls"""

from __future__ import annotations

from typing import Annotated

import typer

from handful import registry
from handful.cli.options import Json, emit

app = typer.Typer(add_completion=False)


@app.command()
def ls(
    kind: Annotated[
        str,
        typer.Argument(
            help="methods, rules, nets, metrics, importers, collections, engines, trackers, diagnoses, recipes"
        ),
    ] = "",
    json: Json = False,
) -> None:
    """List what there is.

    Example: handful ls methods
    """
    kinds = [kind] if kind else [*registry.BUILTIN, "recipes"]
    found = {k: _names(k) for k in kinds}
    if json:
        emit(found)
        return
    for k, names in found.items():
        print(f"{k}:" if not kind else "", end="\n" if not kind else "")
        for name in names:
            print(f"  {name}" if not kind else name)


def _names(kind: str) -> list[str]:
    if kind == "recipes":
        from handful.runs.recipe import packaged

        return packaged()
    return registry.names(kind)
