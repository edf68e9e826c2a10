"""Tables in files: written so that a full disk is told as one, and files of strangers read by another process first.

A damaged Parquet or Arrow file can end the process that reads it. The one that reads first is started once, serves until this one ends, and is started again if a file ended it. This file is also its
program, and imports nothing of the package.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

LEAST_MEMORY, SECONDS = 4 << 30, 600
DIED = "reading it crashes the reader"


def write_frame(frame: pl.DataFrame, path: Path, kind: str = "parquet") -> None:
    """A table as ``parquet`` or ``csv``, by way of memory: polars' own writers turn a full disk into another error."""
    data = io.BytesIO()
    frame.write_csv(data) if kind == "csv" else frame.write_parquet(data)
    path.write_bytes(data.getbuffer())


def read_frame(path: Path, trusted: bool = False) -> pl.DataFrame:
    """A parquet file; an OSError or a ValueError if it cannot be had. Only one that is ``trusted`` is read here at once."""
    import polars as pl

    if not trusted:
        checked(path)
    try:
        return read_table(path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError(_short(error)) from error


def checked(path: Path) -> None:
    """Let the other process read a file first; an OSError or a ValueError if it cannot."""
    if why := _reader.complaint(path):
        raise ValueError(why)


def read_table(path: str | Path) -> pl.DataFrame:
    """A parquet file, or an Arrow file or stream; Polars' own errors if it cannot be had."""
    import polars as pl

    if not str(path).lower().endswith(".arrow"):
        return pl.read_parquet(path, glob=False)
    with open(path, "rb") as stream:
        whole = stream.read(6) == b"ARROW1"
    return pl.read_ipc(path) if whole else pl.read_ipc_stream(path)


class _Reader:
    """The process that reads first."""

    def __init__(self) -> None:
        self.lock, self.owner = threading.Lock(), 0
        self.process: subprocess.Popen[str] | None = None

    def complaint(self, path: Path) -> str:
        """What is wrong with a file; empty if nothing is."""
        with open(path, "rb"):  # what cannot be opened is the caller's to explain
            pass
        with self.lock:
            process = self._running()
            assert process.stdin and process.stdout
            try:
                print(json.dumps([os.path.abspath(path), SECONDS]), file=process.stdin, flush=True)
                answer = process.stdout.readline()
            except OSError:
                answer = ""
            if not answer:
                self.close()
                return DIED
            return json.loads(answer)

    def _running(self) -> subprocess.Popen[str]:
        if self.process is None or self.owner != os.getpid() or self.process.poll() is not None:
            self.owner = os.getpid()
            self.process = subprocess.Popen(
                [sys.executable, "-I", __file__, json.dumps([p for p in sys.path if p])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "POLARS_MAX_THREADS": "1", "RUST_BACKTRACE": "0"},
                start_new_session=True,
                text=True,
                encoding="utf-8",
            )
        return self.process

    def close(self) -> None:
        if self.process is not None and self.owner == os.getpid():
            self.process.kill()
            self.process.communicate()
        self.process = None


_reader = _Reader()
atexit.register(_reader.close)


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _serve() -> None:
    """Read every file that is named, and say what was wrong with it."""
    sys.path += [p for p in json.loads(sys.argv[1]) if p not in sys.path]
    for line in sys.stdin:
        path, seconds = json.loads(line)
        _limit(path, seconds)
        try:
            read_table(path)
            why = ""
        except BaseException as error:  # a panic of polars is no Exception
            why = _short(error)
        print(json.dumps(why), flush=True)


def _limit(path: str, seconds: int) -> None:
    """Bound the memory and time of the next file by its size."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    usage = resource.getrusage(resource.RUSAGE_SELF)
    wanted = [
        (resource.RLIMIT_AS, LEAST_MEMORY + 64 * os.path.getsize(path)),
        (resource.RLIMIT_CPU, int(usage.ru_utime + usage.ru_stime) + seconds),
        (resource.RLIMIT_CORE, 0),
    ]
    for what, value in wanted:
        hard = resource.getrlimit(what)[1]
        try:
            resource.setrlimit(what, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))
        except (OSError, ValueError):  # macOS does not take a limit on address space
            continue


if __name__ == "__main__":
    _serve()
