"""handful data get, handful data verify"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli.options import Json, emit
from handful.errors import BadInput

Manifest = Annotated[
    Path | None, typer.Option("--manifest", help="TOML with further data sets or nearer mirrors; see docs/data.md.")
]
Size = Annotated[str | None, typer.Option("--size", help="Meta-Album: mini (default), micro or extended.")]


def get(
    name: Annotated[str | None, typer.Argument(help="Name of the data set; without a name they are listed.")] = None,
    to: Annotated[Path | None, typer.Option("--to", help="Folder for archives and collection; the cache.")] = None,
    source: Annotated[
        list[Path] | None, typer.Option("--from", help="Archive that you have, or a folder of them; repeatable.")
    ] = None,
    size: Size = None,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Take bytes that are not the published ones.")] = False,
    no_pack: Annotated[bool, typer.Option("--no-pack", help="Leave the images for `handful data pack`.")] = False,
    stall: Annotated[float, typer.Option("--stall", min=0.1, help="Seconds without data before going on.")] = 30.0,
    tries: Annotated[
        int, typer.Option("--tries", min=1, help="Connections without progress before a mirror ends.")
    ] = 4,
    manifest: Manifest = None,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Decoding processes.")] = None,
    json: Json = False,
) -> None:
    """Get a public data set, verify it and pack it. A cut download goes on where it stopped.

    Examples:

    handful data get omniglot --to data/omniglot

    handful data get
    """
    if name is None:
        _list(manifest, json)
        return
    from handful.data.get import get as get_data
    from handful.data.get.web import Patience

    if stall <= 0:
        raise BadInput("--stall must be more than 0 seconds")
    got = get_data(
        name,
        to,
        source=source or (),
        size=size,
        verify=not no_verify,
        pack=not no_pack,
        manifest=manifest,
        patience=Patience(stall=stall, tries=tries, pause=min(1.0, stall)),
        workers=workers,
    )
    if json:
        facts = {"name": got.entry.name, "size": got.entry.size, "folder": str(got.folder), "open": str(got.source)}
        collection = None if got.collection is None else {"id": got.collection.id, "images": len(got.collection)}
        archives = [dataclasses.asdict(a) for a in got.record.archives]
        emit({**facts, "collection": collection, "archives": archives, "notes": got.notes})
        return
    for archive in got.record.archives:
        print(f"{archive.file}: {archive.bytes:,} bytes, {_CHECKED[archive.checked]}")
    for note in got.notes:
        print(note)
    if got.collection is not None:
        print(f"{got.collection.id}: {len(got.collection)} images in {got.source}")
    elif got.entry.layout == "wordnet":
        print(f"WordNet's files are in {got.source}")
    else:
        print(f"ready: handful data pack {got.source} TARGET")


_CHECKED = {
    "sha256": "sha256 as published",
    "md5": "md5 as published",
    "md5-of-server": "md5 as its server says (none is published)",
    "first-use": "as it came first",
    "unverified": "not verified, as asked",
}


def verify(
    place: Annotated[str | None, typer.Argument(help="Name, folder, or nothing for all that was got.")] = None,
    size: Size = None,
    manifest: Manifest = None,
    json: Json = False,
) -> None:
    """Hash what was got again: archives against the published checksums, collections against their cards.

    Examples:

    handful data verify omniglot

    handful data verify omniglot --json
    """
    from handful.data.get import verify as verify_data

    findings = verify_data(place, size=size, manifest=manifest)
    failed = any(not f.ok for f in findings)
    if json:
        emit({"ok": not failed, "findings": [dataclasses.asdict(f) for f in findings]})
    else:
        for finding in findings:
            print(f"{'ok   ' if finding.ok else 'FAULT'} {finding.place} {finding.sentence}")
    if failed:
        raise typer.Exit(2)


def _list(manifest: Path | None, json: bool) -> None:
    from handful.data.get import read_manifest

    known = read_manifest(manifest)
    rows: list[dict[str, Any]] = []
    for entry in known.entries.values():
        facts = {"name": entry.name, "title": entry.title, "bytes": entry.bytes, "checksum": entry.checked}
        rows.append({**facts, "licence": entry.licence, "sizes": []})
    for key, sizes in known.sized.items():
        first = sizes.get("mini") or next(iter(sizes.values()))
        facts = {"name": key, "title": first.title, "bytes": None, "checksum": first.checked}
        rows.append({**facts, "licence": first.licence, "sizes": list(sizes)})
    if json:
        emit({"datasets": rows})
        return
    for row in rows:
        much = f"{row['bytes'] / 1e6:,.0f} MB" if row["bytes"] else "size not published"
        print(f"{row['name']:24} {row['title']} ({much}; checksum: {row['checksum']})")
