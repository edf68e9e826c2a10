"""handful data export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.options import OUTPUT, Json, Scheme, emit


def export(
    place: Annotated[str, typer.Argument(help="Packed folder, world:..., or a folder or zip of images.")],
    target: Annotated[Path, typer.Argument(help="Folder to write; must not exist.")],
    kind: Annotated[
        str,
        typer.Option(
            "--as",
            help="hf (Parquet for Hugging Face datasets), folders (class folders of PNGs), or croissant (Parquet and "
            "croissant.json).",
            rich_help_panel=OUTPUT,
        ),
    ] = "folders",
    scheme: Scheme = None,
    json: Json = False,
) -> None:
    """Write a collection for other programs, with its splits, licence and citation; pixels are kept exactly.

    Examples:

    handful data export packed/photos photos-out --as folders

    handful data export packed/photos photos-hf --as hf
    """
    from handful.data.exporting import export as write
    from handful.data.opening import open_collection

    done = write(open_collection(place), target, kind, scheme=scheme)
    if json:
        emit({"folder": str(done.folder), "images": done.images, "notes": done.notes})
        return
    counts = ", ".join(f"{n} {split}".rstrip() for split, n in done.images.items())
    print(f"{done.folder}: {counts} images")
    for note in done.notes:
        print(note)
