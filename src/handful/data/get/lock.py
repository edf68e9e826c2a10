"""One process at a time in a folder; the lock goes with the process, however it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from handful.errors import BadInput


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, or say who does."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "a+", encoding="ascii") as stream:
        if not _take(stream):
            stream.seek(0)
            holder = stream.read().strip()
            raise BadInput(
                f"another process{f' ({holder})' if holder else ''} is getting data into {folder}; wait for it to end"
            )
        stream.seek(0)
        stream.truncate()
        stream.write(str(os.getpid()))
        stream.flush()
        try:
            yield
        finally:
            stream.seek(0)
            stream.truncate()
            stream.flush()
            _give(stream)


if sys.platform == "win32":
    import msvcrt

    # Far beyond the number that is written, because a locked range cannot be read by others.
    _AT = 1 << 20

    def _take(stream: IO[str]) -> bool:
        stream.seek(_AT)
        try:
            msvcrt.locking(stream.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _give(stream: IO[str]) -> None:
        stream.seek(_AT)
        msvcrt.locking(stream.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _take(stream: IO[str]) -> bool:
        try:
            fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def _give(stream: IO[str]) -> None:
        fcntl.flock(stream.fileno(), fcntl.LOCK_UN)
