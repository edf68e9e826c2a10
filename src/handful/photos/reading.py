"""From what a person has (a folder, a zip, paths, Pillow images, arrays) to square pixels with names and labels."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from handful.data.collection import Collection
from handful.data.decoding import pixel_digest
from handful.data.images import BadImage, decode
from handful.data.opening import open_collection
from handful.data.pack import make_importer
from handful.data.sources import FILE_CAP, LIKE_IMAGES, open_source
from handful.errors import BadInput
from handful.progress import bar


@dataclass(frozen=True)
class Photos:
    """Readable photos as ``(n, size, size, 3)`` uint8; ``unreadable`` has (name, reason) of the others."""

    images: np.ndarray
    names: tuple[str, ...]
    digests: tuple[str, ...]
    unreadable: tuple[tuple[str, str], ...] = ()

    def __len__(self) -> int:
        return len(self.names)


def read_classes(
    source: Any, size: int, layout: str = "auto", options: Mapping[str, Any] | None = None
) -> tuple[Photos, np.ndarray, tuple[str, ...]]:
    """Photos with labels and class names: from a folder or zip in any layout that an importer reads, a packed collection,
    or a dict from class to photos."""
    if isinstance(source, Collection) or is_collection(source):
        items = _of_collection(source if isinstance(source, Collection) else open_collection(source))
        where = str(source)
    elif isinstance(source, Mapping):
        items = [
            (f"{name}/{_call(photo, i)}", str(name), photo)
            for name, photos in source.items()
            for i, photo in enumerate(_several(photos, str(name)))
        ]
        where = "the photos given"
    else:
        items, where = _in_folder(source, layout, options or {})
    photos, kept = _read_all([(n, p) for n, _, p in items], size)
    if not len(photos):
        first = f" ({photos.unreadable[0][0]} {photos.unreadable[0][1]})" if photos.unreadable else ""
        raise BadInput(f"{where} has no photo that can be read{first}; give one folder of photos for each class")
    labels = [items[i][1] for i in kept]
    reasons = dict(photos.unreadable)
    for name, label, _ in items:
        if label and label not in labels:
            raise BadInput(
                f"no photo of class {label!r} can be read ({name} {reasons[name]}); repair them or leave the class out"
            )
    classes = tuple(sorted(set(labels)))
    numbers = {c: k for k, c in enumerate(classes)}
    return photos, np.asarray([numbers[c] for c in labels], dtype=np.int64), classes


def read_photos(photos: Any, size: int) -> Photos:
    """One photo or several: paths, folders or zips of photos, packed collections, Pillow images, arrays ``(h, w)``,
    ``(h, w, 1 or 3 or 4)``, or a batch."""
    if isinstance(photos, np.ndarray) and photos.ndim == 4:
        photos = list(photos)
    if isinstance(photos, (str, os.PathLike, Image.Image, np.ndarray, Collection)):
        photos = [photos]
    items: list[tuple[str, Any]] = []
    for i, photo in enumerate(photos):
        if isinstance(photo, Collection) or is_collection(photo):
            collection = photo if isinstance(photo, Collection) else open_collection(photo)
            items += [(name, pixels) for name, _, pixels in _of_collection(collection)]
        elif isinstance(photo, (str, os.PathLike)) and (Path(photo).is_dir() or _is_zip(photo)):
            inside = open_source(photo)
            like = [*inside.images, *(n for n, _ in inside.unread)]
            if not like:
                raise BadInput(f"{photo} holds no photos; give photos, or a folder with .jpg or .png files in it")
            items += [(f"{os.fspath(photo).rstrip('/')}/{n}", _Member(inside, n)) for n in like]
        elif isinstance(photo, (str, os.PathLike)):
            if not Path(photo).is_file():
                raise BadInput(f"{os.fspath(photo)} does not exist; check the path")
            items.append((os.fspath(photo), photo))
        else:
            items.append((_call(photo, i), photo))
    return _read_all(items, size)[0]


def _is_zip(place: str | os.PathLike[str]) -> bool:
    return os.fspath(place).lower().endswith(".zip") and Path(place).is_file()


class _Member:
    def __init__(self, source: Any, name: str):
        self.source, self.name = source, name


def is_collection(source: Any) -> bool:
    """Whether a person means a packed collection: its folder, or a name such as ``world:size=32``."""
    if not isinstance(source, (str, os.PathLike)):
        return False
    place = Path(source)
    return (
        (place / "card.json").is_file() or (place / "got.json").is_file() or (":" in str(source) and not place.exists())
    )


def _of_collection(collection: Collection) -> list[tuple[str, str, Any]]:
    if collection.card.kind != "images":
        raise BadInput(f"{collection.id} holds {collection.card.kind}, not photos; give a collection of images")
    columns = [collection.table[c].cast(str).to_list() for c in collection.card.labels]
    files = collection.table["file"].to_list() if "file" in collection.table.columns else None
    labels = [" ".join(row) for row in zip(*columns, strict=True)]
    return [
        (files[i] if files else f"image {i}", labels[i], collection.read(np.array([i]))[0])
        for i in range(len(collection))
    ]


def _in_folder(
    place: str | os.PathLike[str], layout: str, options: Mapping[str, Any]
) -> tuple[list[tuple[str, str, Any]], str]:
    source = open_source(place)
    listed = bool(source.images or source.tables)
    if not listed and not source.unread:
        raise BadInput(f"{source.path} holds no photos; give a folder with one folder of photos for each class")
    items = []
    if listed:
        listing = make_importer(layout, source, options).read(source)
        items = [
            (i.file, " ".join(i.columns[c] for c in listing.labels), _Member(source, i.file)) for i in listing.items
        ]
    return [*items, *((n, "", _Member(source, n)) for n, _ in source.unread)], str(source.path)


def _read_all(items: Sequence[tuple[str, Any]], size: int) -> tuple[Photos, list[int]]:
    images, names, digests, bad, kept = [], [], [], [], []
    with bar("reading photos", len(items)) as advance:
        for i, (name, photo) in enumerate(items):
            try:
                pixels, digest = _pixels(photo, name, size)
            except BadImage as error:
                bad.append((name, error.reason))
            else:
                images.append(pixels)
                names.append(name)
                digests.append(digest)
                kept.append(i)
            advance(1)
    stacked = np.stack(images) if images else np.zeros((0, size, size, 3), dtype=np.uint8)
    return Photos(stacked, tuple(names), tuple(digests), tuple(bad)), kept


def _pixels(photo: Any, name: str, size: int) -> tuple[np.ndarray, str]:
    """The square, and a digest of it that equal pictures share whatever format they were saved in without loss."""
    if isinstance(photo, _Member):
        if photo.name.lower().endswith(LIKE_IMAGES):
            raise BadImage(name, dict(photo.source.unread)[photo.name])
        try:
            data = photo.source.read(photo.name)
        except BadInput as error:
            raise BadImage(name, str(error).removeprefix(photo.source.where(photo.name)).strip()) from error
    elif isinstance(photo, (str, os.PathLike)):
        try:
            with open(photo, "rb") as stream:
                data = stream.read(FILE_CAP + 1)
        except OSError as error:
            raise BadImage(name, f"cannot be read ({error.strerror})") from error
        if len(data) > FILE_CAP:
            raise BadImage(name, f"is larger than {FILE_CAP >> 20} MB")
    else:
        data = _as_png(photo, name)
    square = decode(data, name, size)
    return square, pixel_digest(square)


def _as_png(photo: Any, name: str) -> bytes:
    """Pillow images and arrays go the way of files, so that the same picture gets the same pixels."""
    if isinstance(photo, Image.Image):
        exif = photo.getexif()
        image = photo if photo.mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16") else photo.convert("RGB")
        stream = io.BytesIO()
        image.save(stream, "PNG", compress_level=0, exif=exif)
        return stream.getvalue()
    if hasattr(photo, "detach"):
        photo = photo.detach().cpu().numpy()
    array = np.asarray(photo)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)) or 0 in array.shape:
        raise BadInput(f"{name} is an array of shape {array.shape}; give (height, width) or (height, width, 1, 3 or 4)")
    if array.dtype != np.uint8:
        if not (np.issubdtype(array.dtype, np.floating) and np.isfinite(array).all()):
            raise BadInput(f"{name} is an array of {array.dtype}; give uint8, or floats from 0 to 1")
        if array.min() < 0 or array.max() > 1:
            raise BadInput(
                f"{name} has values from {array.min():g} to {array.max():g}; give uint8, or floats from 0 to 1"
            )
        array = np.round(array * 255).astype(np.uint8)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    return _as_png(Image.fromarray(array), name)


def _several(photos: Any, name: str) -> Iterable[Any]:
    if isinstance(photos, np.ndarray) and photos.ndim == 4:
        return list(photos)
    if isinstance(photos, (str, os.PathLike)) and Path(photos).is_dir():
        inside = open_source(photos)
        return [_Member(inside, n) for n in [*inside.images, *(n for n, _ in inside.unread)]]
    if isinstance(photos, (str, os.PathLike, Image.Image)) or (isinstance(photos, np.ndarray) and photos.ndim < 4):
        raise BadInput(f"class {name!r} is one photo; give a list of photos, or a folder")
    return photos


def _call(photo: Any, i: int) -> str:
    """A name without folders: models move to other machines, where these mean nothing."""
    if isinstance(photo, _Member):
        return photo.name
    return Path(photo).name if isinstance(photo, (str, os.PathLike)) else f"photo {i + 1}"
