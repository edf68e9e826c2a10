"""Opening a collection by what a person writes: a packed folder, ``world:...``, a plugged-in name, a folder of photos."""

from __future__ import annotations

import os
from pathlib import Path

from handful import registry
from handful.data.collection import Collection
from handful.data.store import open_packed
from handful.errors import BadInput


def open_collection(spec: str | os.PathLike[str]) -> Collection:
    """The collection that ``spec`` names.

    A packed folder; ``world`` or ``world:ground=0.9,size=32``; the name of a plugged-in collection; or a raw folder of
    class folders (or a zip of one), which is packed into the cache first.
    """
    text = os.fspath(spec)
    if text == "world" or text.startswith("world:"):
        from handful.data.world import parse_world

        return parse_world(text.partition(":")[2])
    path = Path(text)
    if (path / "card.json").is_file():
        return open_packed(path)
    if text in registry.table("collections"):
        return registry.get("collections", text)()
    if path.exists():
        from handful.data.pack import pack_into_cache

        return pack_into_cache(path)
    raise BadInput(
        f"{text} is neither a folder nor a known collection; give a packed folder, 'world', or a folder of images"
    )
