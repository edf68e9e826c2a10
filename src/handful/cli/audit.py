"""handful audit"""

from __future__ import annotations

from typing import Annotated

import typer

from handful.cli.options import Json, Seed, emit

app = typer.Typer(add_completion=False)


@app.command()
def audit(
    collection: Annotated[str, typer.Argument(help="Packed folder, world:..., or a folder of images.")],
    only: Annotated[list[str] | None, typer.Option("--only", help="This diagnosis alone (may be given again).")] = None,
    net: Annotated[str, typer.Option("--net", help="Backbone for the diagnoses that need features.")] = "pixels",
    budget: Annotated[float, typer.Option("--budget", help="Minutes for the whole audit.")] = 5.0,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Ask what a benchmark's score will really mean: every registered diagnosis that the collection allows.

    Example: handful audit world --budget 2
    """
    from handful import registry
    from handful.audits.audit import audit as run_audit
    from handful.data.opening import open_collection

    for name in only or []:
        registry.get("diagnoses", name)
    result = run_audit(open_collection(collection), only=only, net=net, seed=seed, minutes=budget)
    emit(result.as_dict()) if json else print(result)
