"""The photos of a folder, numbered once; each is read and embedded once, in the background."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from handful.data.decoding import pixel_digest
from handful.data.images import BadImage, decode
from handful.data.pack import make_importer
from handful.data.sources import LIKE_IMAGES, Source, is_image_name, open_source
from handful.errors import BadInput, HandfulError
from handful.files import write_atomically
from handful.photos.encoder import BATCH, Encoder
from handful.studio.kept import Features, content_key, thumbnail, tiny

WAITING, READY, BROKEN = "waiting", "ready", "broken"


@dataclass
class Photo:
    """One file. ``twin`` is the number of the first photo with the same pixels; ``changed`` the version of its last change."""

    number: int
    name: str
    stamp: str
    state: str = WAITING
    reason: str = ""
    pixels: str = ""
    twin: int | None = None
    changed: int = 0


class Album:
    """Photos of a folder.

    Parameters
    ----------
    net
        The encoder's spec, as of `handful fit`.
    touched
        Called with photos after they have changed.
    """

    def __init__(self, folder: Path, net: Any, touched: Callable[[list[Photo]], None]):
        self.folder, self.net, self.touched = folder, net, touched
        self.photos: list[Photo] = []
        self.by_name: dict[str, Photo] = {}
        self.x: dict[int, np.ndarray] = {}
        self.tiny: dict[int, np.ndarray] = {}
        self.encoder: Encoder | None = None
        self.trouble = ""
        self.lock, self.wake, self.ending = threading.RLock(), threading.Event(), False
        self._first: dict[str, int] = {}
        self._source: Source | None = None
        self.scan()
        self.thread = threading.Thread(target=self._work, name="embedding", daemon=True)

    def scan(self) -> list[Photo]:
        """Look for files that are new; those that were seen keep their numbers."""
        source = open_source(self.folder)
        stamps = {name: (size, time) for name, size, time in source.stamps()}
        new = []
        with self.lock:
            self._source = source
            for name in source.names:
                if name in self.by_name or not (is_image_name(name) or name.lower().endswith(LIKE_IMAGES)):
                    continue
                stamp = hashlib.blake2b(
                    repr((str(self.folder.resolve()), name, stamps.get(name))).encode(), digest_size=20
                ).hexdigest()
                photo = Photo(len(self.photos), name, stamp)
                if not is_image_name(name):
                    photo.state, photo.reason = BROKEN, dict(source.unread)[name]
                self.photos.append(photo)
                self.by_name[name] = photo
                new.append(photo)
        if new:
            self.touched(new)
            self.wake.set()
        return new

    def folder_labels(self) -> tuple[dict[str, str], str]:
        """Labels from class folders as an importer reads them, or the sentence why there are none."""
        inside = [p.name for p in self.photos if "/" in p.name and is_image_name(p.name)]
        if len({PurePosixPath(n).parent for n in inside}) < 2:  # one folder around everything says nothing of classes
            return {}, ""
        if all(n.count("/") == 1 for n in inside):
            return {n: n.partition("/")[0] for n in inside}, ""
        try:
            assert self._source is not None
            listing = make_importer("folders", self._source, {}).read(self._source)
        except BadInput as error:
            return {}, f"no labels were taken from the folders: {error}"
        return {i.file: i.columns["label"] for i in listing.items}, ""

    def read(self, photo: Photo) -> bytes:
        """The bytes of a photo's file; `BadImage` if they cannot be had."""
        assert self._source is not None
        try:
            return self._source.read(photo.name)
        except BadInput as error:
            raise BadImage(photo.name, str(error).removeprefix(self._source.where(photo.name)).strip()) from error

    def small(self, photo: Photo) -> bytes:
        """The photo's thumbnail, a JPEG."""
        if photo.state == BROKEN:
            raise BadImage(photo.name, photo.reason)
        kept = thumbnail(photo.stamp, None, photo.name)
        if kept is None:
            kept = thumbnail(photo.stamp, self.read(photo), photo.name)
        assert kept is not None
        return kept

    def add(self, name: str, data: bytes) -> str:
        """Keep a dropped file under its name, or under a free one beside it; the name."""
        path = safe_name(name)
        if not is_image_name(path) and not path.lower().endswith(LIKE_IMAGES):
            raise BadInput(f"{path} is not a photo by its name; drop .jpg, .png, .webp, .heic or the like")
        with self.lock:
            place, number = self.folder / path, 1
            while place.exists():
                if place.is_file() and place.read_bytes() == data:
                    return str(place.relative_to(self.folder))
                number += 1
                pure = PurePosixPath(path)
                place = self.folder / pure.with_name(f"{pure.stem} ({number}){pure.suffix}")
            write_atomically(place, lambda p: Path(p).write_bytes(data))
        return place.relative_to(self.folder).as_posix()

    @property
    def progress(self) -> dict[str, Any]:
        states = [p.state for p in self.photos]
        return {
            "photos": len(states),
            "done": len(states) - states.count(WAITING),
            "broken": states.count(BROKEN),
            "trouble": self.trouble,
        }

    def start(self) -> None:
        self.thread.start()

    def close(self) -> None:
        self.ending = True
        self.wake.set()
        if self.thread.ident is not None:
            self.thread.join(30)

    def _work(self) -> None:
        try:
            self.encoder = Encoder(self.net)
            kept = Features(f"{self.encoder.hash}-{self.encoder.size}")
            while not self.ending:
                with self.lock:
                    waiting = [p for p in self.photos if p.state == WAITING][: 2 * BATCH]
                if not waiting:
                    self.wake.wait()
                    self.wake.clear()
                    continue
                self._embed(waiting, kept)
            kept.close()
        except Exception as error:  # labelling must go on; the page shows the sentence
            known = isinstance(error, HandfulError)
            self.trouble = f"{error}" if known else f"looking at photos stopped ({error!r}); start the studio again"
            self.touched([])

    def _embed(self, photos: list[Photo], kept: Features) -> None:
        assert self.encoder is not None
        found: list[tuple[Photo, str, np.ndarray, np.ndarray]] = []
        fresh: list[tuple[Photo, str, np.ndarray]] = []
        broken: list[Photo] = []
        for photo in photos:
            try:
                data = self.read(photo)
                key = content_key(data)
                if (row := kept.get(key)) is not None:
                    found.append((photo, *row))
                else:
                    fresh.append((photo, key, decode(data, photo.name, self.encoder.size)))
            except BadImage as error:
                photo.state, photo.reason = BROKEN, error.reason
                broken.append(photo)
        if fresh:
            x = self.encoder(np.stack([square for _, _, square in fresh])).astype(np.float32)
            rows = [(key, pixel_digest(s), v, tiny(s)) for (_, key, s), v in zip(fresh, x, strict=True)]
            kept.put(rows)
            found += [(p, *row[1:]) for (p, _, _), row in zip(fresh, rows, strict=True)]
        with self.lock:
            for photo, pixels, vector, small in sorted(found, key=lambda f: f[0].number):
                self.x[photo.number], self.tiny[photo.number] = vector, small
                first = self._first.setdefault(pixels, photo.number)
                photo.pixels, photo.twin, photo.state = pixels, first if first != photo.number else None, READY
        self.touched([*broken, *(f[0] for f in found)])


def safe_name(name: str) -> str:
    """A dropped file's path below the folder: nothing that climbs out, hides, or that a file system refuses."""
    parts = [p.strip() for p in name.replace("\\", "/").split("/")]
    parts = [p for p in parts if p not in ("", ".")]
    wrong = not parts or any(p.startswith(".") or len(p.encode()) > 200 or not p.isprintable() for p in parts)
    if wrong or len(parts) > 8 or ":" in parts[0]:
        raise BadInput(f"{name[:80]!r} is not a name for a photo in the folder; rename the file")
    return "/".join(parts)
