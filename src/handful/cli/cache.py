"""handful cache"""

from __future__ import annotations

import re
from typing import Annotated

import typer

from handful.cli.options import Json, emit

app = typer.Typer(add_completion=False, no_args_is_help=True, help="What is kept between runs: list it, clear it.")

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}


@app.command("ls")
def ls(json: Json = False) -> None:
    """List kept features, packed folders and shipped files, the largest first, with their sizes.

    Examples:

    handful cache ls

    handful cache ls --json
    """
    from handful.cache import cache_folder, entries

    found = entries()
    if json:
        emit(
            {
                "folder": str(cache_folder()),
                "bytes": sum(e.bytes for e in found),
                "entries": [e.as_dict() for e in found],
            }
        )
        return
    for entry in found:
        age = entry.as_dict()["unused_seconds"]
        print(f"{size(entry.bytes):>9}  {entry.kind:<11} unused {length(age):>6}  {entry.what}  ({entry.path.name})")
    print(f"{size(sum(e.bytes for e in found)):>9}  in {len(found)} entries of {cache_folder()}")


@app.command("clear")
def clear_(
    older_than: Annotated[
        str, typer.Option("--older-than", help="Only what was not used for so long: 30m, 12h, 7d, 2w.")
    ] = "0s",
    collections: Annotated[
        bool, typer.Option("--collections", help="Packed raw folders too; they are packed again when they are needed.")
    ] = False,
    json: Json = False,
) -> None:
    """Remove kept features and shipped files (and packed folders, with --collections).

    Examples:

    handful cache clear --older-than 7d

    handful cache clear --collections
    """
    from handful.cache import KINDS, clear

    kinds = KINDS if collections else tuple(k for k in KINDS if k != "collections")
    gone = clear(seconds(older_than), kinds)
    total = sum(e.bytes for e in gone)
    emit({"removed": len(gone), "bytes": total}) if json else print(f"removed {len(gone)} entries, {size(total)}")


def seconds(text: str) -> float:
    """A length of time as people write it."""
    from handful.errors import BadInput

    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhdw])", text.strip())
    if not match:
        raise BadInput(f"{text!r} is not a length of time; write a number and s, m, h, d or w, such as 7d")
    return float(match[1]) * UNITS[match[2]]


def size(n: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} TB"


def length(age: float) -> str:
    for unit, span in (("w", UNITS["w"]), ("d", UNITS["d"]), ("h", UNITS["h"]), ("m", UNITS["m"])):
        if age >= span:
            return f"{age / span:.0f}{unit}"
    return f"{age:.0f}s"
