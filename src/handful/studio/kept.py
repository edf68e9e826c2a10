"""What the studio keeps between runs: features by content, thumbnails by file. All of it can be made again."""

from __future__ import annotations

import hashlib
import io
import sqlite3
import threading
from pathlib import Path

import numpy as np
from PIL import Image

from handful.cache import cache_folder
from handful.data.images import decode
from handful.files import write_atomically

SMALL = 160
TINY = 16


class Features:
    """Unit vectors by the hash of a file's bytes, with its pixels' digest and a tiny picture to find near copies by."""

    def __init__(self, encoder: str):
        place = cache_folder() / "studio"
        place.mkdir(parents=True, exist_ok=True)
        self.lock = threading.Lock()
        self.base = sqlite3.connect(place / f"features-{encoder}.sqlite", check_same_thread=False, timeout=30)
        self.base.execute("PRAGMA journal_mode=WAL")
        self.base.execute("CREATE TABLE IF NOT EXISTS f (key TEXT PRIMARY KEY, pixels TEXT, x BLOB, tiny BLOB)")

    def get(self, key: str) -> tuple[str, np.ndarray, np.ndarray] | None:
        with self.lock:
            row = self.base.execute("SELECT pixels, x, tiny FROM f WHERE key = ?", (key,)).fetchone()
        if row is None or len(row[2]) != 3 * TINY * TINY:
            return None
        return row[0], np.frombuffer(row[1], "<f4"), np.frombuffer(row[2], np.uint8).reshape(TINY, TINY, 3)

    def put(self, rows: list[tuple[str, str, np.ndarray, np.ndarray]]) -> None:
        with self.lock, self.base:
            self.base.executemany(
                "INSERT OR REPLACE INTO f VALUES (?, ?, ?, ?)",
                [(key, pixels, x.astype("<f4").tobytes(), tiny.tobytes()) for key, pixels, x, tiny in rows],
            )

    def close(self) -> None:
        with self.lock:
            self.base.close()


def content_key(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=20).hexdigest()


def tiny(square: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(square).resize((TINY, TINY), Image.Resampling.BOX))


def thumbnail(stamp: str, read: bytes | None, name: str) -> bytes | None:
    """The JPEG kept under this stamp; made from the file's bytes if they are given. None if it is not kept."""
    path = cache_folder() / "studio" / "thumbs" / stamp[:2] / f"{stamp}.jpg"
    if path.is_file():
        return path.read_bytes()
    if read is None:
        return None
    data = jpeg(decode(read, name, SMALL))
    write_atomically(path, lambda p: Path(p).write_bytes(data))
    return data


def jpeg(pixels: np.ndarray, quality: int = 85) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=quality)
    return stream.getvalue()
