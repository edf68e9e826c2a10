"""handful ls"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from handful import registry
from handful.cli.options import OUTPUT, Json, emit
from handful.errors import BadInput, nearest

app = typer.Typer(add_completion=False)

FILTERS = "Which methods"


@app.command()
def ls(
    kind: Annotated[
        str,
        typer.Argument(
            help="methods, rules, nets, metrics, importers, collections, engines, trackers, diagnoses, repairs or recipes; "
            "the names of all by default."
        ),
    ] = "",
    family: Annotated[
        str | None,
        typer.Option("--family", help="Only this family: metric, gradient, finetuning, ...", rich_help_panel=FILTERS),
    ] = None,
    setting: Annotated[
        str | None,
        typer.Option(
            "--setting", help="Only this setting: few-shot, pairs, clustering or zero-shot.", rich_help_panel=FILTERS
        ),
    ] = None,
    transductive: Annotated[
        bool | None,
        typer.Option(
            "--transductive/--inductive",
            help="Only methods that look at all queries together, or only those that do not.",
            rich_help_panel=FILTERS,
        ),
    ] = None,
    names: Annotated[
        bool, typer.Option("--names", help="Print names alone, one per line.", rich_help_panel=OUTPUT)
    ] = False,
    json: Json = False,
) -> None:
    """List what there is: the names of everything, or a table of the methods or recipes.

    Examples:

    handful ls

    handful ls methods --family metric --transductive

    handful ls methods --setting zero-shot --json

    handful ls recipes
    """
    filters = {"family": family, "setting": setting, "transductive": transductive}
    filters = {key: value for key, value in filters.items() if value is not None}
    if filters and (kind != "methods" or names):
        raise BadInput(f"--{next(iter(filters))} filters the table of methods; write: handful ls methods")
    if kind in ("methods", "recipes") and not names:
        from handful.cli.listing import methods, recipes, show

        rows = methods(filters) if kind == "methods" else recipes()
        emit({kind: rows}) if json else show(rows)
        return
    every = (*registry.BUILTIN, "recipes")
    if kind and kind not in every:
        raise BadInput(f"there is no list of {kind!r}; {nearest(kind, every)}")
    found: dict[str, Any] = {k: _names(k) for k in ([kind] if kind else every)}
    if json:
        emit(found)
        return
    for k, some in found.items():
        if not kind:
            print(f"{k}:")
        for name in some:
            print(name if kind else f"  {name}")


def _names(kind: str) -> list[str]:
    if kind == "recipes":
        return registry.packaged()
    # A module is given from Python; no text builds one.
    return [name for name in registry.names(kind) if (kind, name) != ("nets", "module")]
