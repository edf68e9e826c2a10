"""handful verify-certificate"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.groups import Computing, spread
from handful.cli.options import Json, emit

app = typer.Typer(add_completion=False)


@app.command("verify-certificate")
@spread
def verify_certificate(
    folder: Annotated[Path, typer.Argument(help="A repaired folder, with its certificate.")],
    quick: Annotated[bool, typer.Option("--quick", help="Repeat hashes, mask and panel, but not the audits.")] = False,
    computing: Computing = Computing(),
    json: Json = False,
) -> None:
    """Repeat a repair and its certificate: equal, or what differs (exit code 1).

    Examples:

    handful verify-certificate fixed/pacs

    handful verify-certificate fixed/pacs --quick --json
    """
    from handful.repair.certificate import verify

    found = verify(folder, quick=quick, compute=computing.compute())
    if json:
        emit({"folder": str(folder), "equal": not found, "differences": found})
    else:
        print("\n".join(found) if found else f"{folder}: equal")
    if found:
        raise typer.Exit(1)
