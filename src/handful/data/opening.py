"""Opening a collection by what a person writes: a packed folder, ``world:...``, a plugged-in name, a folder of photos."""

from __future__ import annotations

import os
from pathlib import Path

from handful import registry
from handful.data.collection import Collection, open_packed
from handful.errors import BadInput, Missing
from handful.options import parse_spec


def open_collection(spec: str | os.PathLike[str], *, skip_bad: bool = False) -> Collection:
    """The collection that ``spec`` names.

    A packed folder, or the folder of a data set that was got; ``world`` or ``world:ground=0.9,size=32``; the name of a
    plugged-in collection or of a data set in the cache (``omniglot``, after `handful data get omniglot`); or a raw folder
    of class folders (or a zip of one), which is packed into the cache first. Unreadable files in a raw folder are refused,
    or left out and remembered with ``skip_bad`` (`handful.data.store.skipped_files`).
    """
    text = os.fspath(spec)
    name, _, rest = text.partition(":")
    if name in registry.table("collections") and (rest or not Path(text).exists()):
        return registry.make("collections", *parse_spec(text))
    path = Path(text)
    if (path / "card.json").is_file():
        return open_packed(path)
    if (path / "got.json").is_file() and (path / "packed" / "card.json").is_file():
        return open_packed(path / "packed")
    if path.exists():
        from handful.data.pack import pack_into_cache

        return pack_into_cache(path, skip_bad)
    if (got := _got(text)) is not None:
        return open_packed(got)
    raise BadInput(
        f"{text} is neither a folder nor a known collection; give a packed folder, 'world', or a folder of images"
    )


def _got(name: str) -> Path | None:
    """The packed folder of a data set of the manifest, None for a name that is not there."""
    from handful.data.get.getting import folder_of
    from handful.data.get.manifest import read_manifest

    try:
        entry = read_manifest().find(name)
    except BadInput:
        return None
    packed = folder_of(entry) / "packed"
    if not (packed / "card.json").is_file():
        raise Missing(f"{entry.name} is not in the cache; get it with: handful data get {name}")
    return packed
