"""Episodes in a file: written once, replayed anywhere the same collection is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from handful.data.collection import Collection
from handful.errors import BadInput, Mismatch
from handful.files import WRONG, parse_json, read_text, write_atomically
from handful.tasks.episode import Episode


def write_episodes(path: Path, episodes: Sequence[Episode], collection: Collection) -> None:
    """One JSON object a line; the first names the collection."""
    lines = [json.dumps({"handful": "episodes", "collection": collection.id})]
    lines += [json.dumps(e.as_dict()) for e in episodes]
    write_atomically(path, lambda t: t.write_text("\n".join(lines) + "\n", encoding="utf-8"))


def read_episodes(path: Path, collection: Collection) -> list[Episode]:
    """Episodes of a file, refused if they were drawn from another collection or name images it does not have."""
    try:
        lines = read_text(path).split("\n")
        head = parse_json(lines[0])
        named = head["collection"]
        episodes = [Episode.from_dict(parse_json(line)) for line in lines[1:] if line.strip()]
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read ({error.strerror}); write one with: handful tasks draw ... --save {path}"
        ) from error
    except WRONG as error:
        raise BadInput(
            f"{path} is not a file of episodes ({error}); write one with: handful tasks draw ... --save"
        ) from error
    if named != collection.id:
        raise Mismatch(f"{path} was drawn from {named}, not from {collection.id}; open that collection")
    for e in episodes:
        rows = np.concatenate([e.support, e.query])
        if len(rows) and (rows.min() < 0 or rows.max() >= len(collection)):
            raise BadInput(f"{path}: episode {e.number} names image {rows.max()}, the collection has {len(collection)}")
    return episodes
