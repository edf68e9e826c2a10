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
        str, typer.Argument(help="methods, rules, nets, metrics, importers, collections, diagnoses, recipes")
    ] = "",
    every: Annotated[bool, typer.Option("--all", help="Also what the papers have and the library lacks.")] = False,
    json: Json = False,
) -> None:
    """List what there is.

    Example: handful ls methods --all
    """
    kinds = [kind] if kind else [*registry.BUILTIN, "recipes"]
    found = {k: _names(k) for k in kinds}
    missing = dict(registry.MISSING) if every and (not kind or kind == "methods") else {}
    if json:
        emit({**found, **({"missing": missing} if every else {})})
        return
    for k, names in found.items():
        print(f"{k}:" if not kind else "", end="\n" if not kind else "")
        for name in names:
            print(f"  {name}" if not kind else name)
    for name, why in missing.items():
        print(f"  {name}  (missing: {why})" if not kind else f"{name}  (missing: {why})")


def _names(kind: str) -> list[str]:
    if kind == "recipes":
        from handful.runs.recipe import packaged

        return packaged()
    return registry.names(kind)
