"""A collection from a table in memory: a Polars or pandas frame with a column of images and one of classes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from handful.data.collection import Card, Collection, as_table
from handful.data.images import decode
from handful.data.importers import split_name
from handful.data.sources import FILE_CAP
from handful.data.store import table_digest
from handful.errors import BadInput, nearest
from handful.progress import bar


def from_frame(
    frame: Any,
    image: str = "path",
    label: str | Sequence[str] = "class",
    *,
    split: str | None = None,
    context: str | None = None,
    root: str | os.PathLike[str] = ".",
    size: int = 84,
    grey: bool = False,
    name: str = "frame",
    licence: str = "unknown",
    citation: str = "",
) -> Collection:
    """The rows of a frame as a collection in memory; `Collection.save` packs it.

    Parameters
    ----------
    frame
        A Polars or pandas frame, or a dict of columns.
    image
        The column of images: paths, bytes of image files, or dicts with ``bytes`` (as `datasets` gives them).
    label
        The column that is the class, or several whose tuple is.
    split
        A column of train, valid (or val, validation) and test.
    context
        A column of contexts.
    root
        The folder that relative paths start from.
    size, grey
        Side in pixels, and one channel instead of three.
    """
    labels = (label,) if isinstance(label, str) else tuple(label)
    known = [str(c) for c in (frame if isinstance(frame, Mapping) else frame.columns)]
    for column in (image, *labels, *filter(None, (split, context))):
        if column not in known:
            raise BadInput(f"the frame has no column {column!r}; {nearest(column, known)}")
    photos = list(frame[image])
    if not photos:
        raise BadInput("the frame has no rows; give one for each image")
    columns = {c: [_text(v) for v in frame[c]] for c in known if c != image}
    for column in labels:
        if None in columns[column]:
            raise BadInput(f"row {columns[column].index(None)} of the frame has no {column}; label it")
    if split:
        columns[split] = [split_name(v or "", f"row {i} of the frame") for i, v in enumerate(columns[split])]
    pixels = np.empty((len(photos), size, size, 1 if grey else 3), dtype=np.uint8)
    with bar("reading the frame's images", len(photos)) as advance:
        for row, photo in enumerate(photos):
            pixels[row] = decode(_bytes(photo, row, Path(root)), f"row {row} of the frame", size, grey)
            advance(1)
    table = as_table({c: v for c, v in columns.items() if any(x is not None for x in v)})
    schemes = (split,) if split else ()
    content = hashlib.sha256(pixels.tobytes() + table_digest(table).encode()).hexdigest()
    card = Card(
        name, "images", pixels.shape[1:], labels, "1", licence, schemes, context, hash=content, citation=citation
    )
    return Collection(card, table, pixels)


def _text(value: Any) -> str | None:
    """A value as text; None, NaN and nothing are no value."""
    if value is None or value != value or str(value).strip() in ("", "<NA>"):
        return None
    return str(value)


def _bytes(photo: Any, row: int, root: Path) -> bytes:
    if isinstance(photo, Mapping):
        photo = photo["bytes"] if photo.get("bytes") is not None else photo.get("path")
    if isinstance(photo, bytes | bytearray | memoryview):
        data = bytes(photo)
    elif isinstance(photo, str | os.PathLike):
        try:
            with open(root / photo, "rb") as stream:
                data = stream.read(FILE_CAP + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise BadInput(
                f"row {row} of the frame: {os.fspath(photo)} cannot be read ({reason}); check the path"
            ) from error
    else:
        raise BadInput(
            f"row {row} of the frame holds {type(photo).__name__}, not an image; give a path or an image file's bytes"
        )
    if len(data) > FILE_CAP:
        raise BadInput(f"row {row} of the frame is larger than {FILE_CAP >> 20} MB")
    return data
