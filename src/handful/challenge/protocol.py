"""What crosses the wall between the evaluator and submitted code.

Towards the sandbox: headers and arrays, written by the evaluator, whose lengths can be believed. From the sandbox:
frames of one fixed size, then, only where the evaluator asked for it, one array of the size the evaluator computed. No
pickles, no lengths from the child. This file is loaded on both sides and imports nothing of the package.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

MAGIC = b"hf01"
_FRAME = struct.Struct("<4sBBBx64s1976s")
FRAME_BYTES = _FRAME.size
_SUPPORT = struct.Struct("<4s6I")
_QUERY = struct.Struct("<4sI")
NAME_BYTES = 244
_BLOCK = struct.Struct(f"<4sBxxxI{NAME_BYTES}s")
BLOCK_BYTES = _BLOCK.size + (1 << 16)


class JobStage(IntEnum):
    """Where a job stands; the child reports each stage once, in this order."""

    LOADED = 1
    TRAINED = 2
    SAVED = 3
    FITTED = 4
    ANSWERED = 5


class Status(IntEnum):
    """How a stage ended, as the child tells it. The evaluator checks whatever it can by itself."""

    OK = 0
    IMPORT_ERROR = 1
    BAD_CONFIG = 2
    TRAIN_ERROR = 3
    SAVE_ERROR = 4
    LOAD_ERROR = 5
    FIT_ERROR = 6
    PREDICT_ERROR = 7
    BAD_SHAPE = 8
    BAD_DTYPE = 9
    OOM = 10


class Kind(IntEnum):
    """What the answer's array holds: scores for every class, or labels in its first column."""

    SCORES = 0
    LABELS = 1


class FileBlock(IntEnum):
    """Blocks of the stream of saved files."""

    FILE = 1
    DATA = 2
    END = 3


class BadFrame(Exception):
    """The child sent what no honest child sends."""


@dataclass(frozen=True)
class ChildReport:
    """One report of the child."""

    stage: JobStage
    status: Status
    kind: Kind = Kind.SCORES
    error: str = ""
    text: str = ""

    def pack(self) -> bytes:
        """As bytes of the one fixed size."""
        return _FRAME.pack(MAGIC, self.stage, self.status, self.kind, _fit(self.error, 64), _fit(self.text, 1976))

    @staticmethod
    def unpack(data: bytes) -> ChildReport:
        """Read a frame, or raise BadFrame for anything that is not one."""
        magic, stage, status, kind, error, text = _FRAME.unpack(data)
        if magic != MAGIC:
            raise BadFrame("not a frame")
        try:
            return ChildReport(JobStage(stage), Status(status), Kind(kind), _text(error), _text(text))
        except ValueError as problem:
            raise BadFrame("unknown stage, status or kind") from problem


def _fit(text: str, size: int) -> bytes:
    data = text.encode("utf-8", "replace")
    # The end of a message says more than its beginning: a traceback's last line names the error.
    return data if len(data) <= size else b"..." + data[-(size - 3) :]


def _text(data: bytes) -> str:
    return data.rstrip(b"\x00").decode("utf-8", "replace")


def _bytes(array: Any) -> memoryview:
    return np.ascontiguousarray(array).data.cast("B")


def pack_support(
    images: np.ndarray, labels: np.ndarray, original: np.ndarray, ways: int, shots: int
) -> list[memoryview]:
    """A task's support as buffers to write: uint8 images (n, h, w, c), labels and stand-in original labels."""
    n, h, w, c = images.shape
    parts = (images.astype(np.uint8, copy=False), labels.astype("<i8"), original.astype("<i8"))
    head = memoryview(_SUPPORT.pack(MAGIC, n, h, w, c, ways, shots))
    return [head, *(_bytes(part) for part in parts)]


def pack_query(images: np.ndarray) -> list[memoryview]:
    """A task's queries as buffers to write."""
    head = memoryview(_QUERY.pack(MAGIC, len(images)))
    return [head, _bytes(images.astype(np.uint8, copy=False))]


def answer_bytes(queries: int, ways: int) -> int:
    """Size of the array that follows a good ANSWERED frame."""
    return 4 * queries * ways


def read_exactly(fd: int, size: int) -> memoryview:
    """Read ``size`` bytes from a blocking descriptor (the child's side)."""
    view = np.empty(size, np.uint8).data
    done = 0
    while done < size:
        got = os.readv(fd, [view[done:]])
        if got == 0:
            raise EOFError("the evaluator closed the connection")
        done += got
    return view


def write_all(fd: int, data: Any) -> None:
    """Write everything to a blocking descriptor (the child's side)."""
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(fd, view[: 1 << 20]) :]


def read_support(fd: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, int]:
    """Read what pack_support wrote."""
    _, n, h, w, c, ways, shots = _SUPPORT.unpack(read_exactly(fd, _SUPPORT.size))
    images = np.frombuffer(read_exactly(fd, n * h * w * c), np.uint8).reshape(n, h, w, c)
    labels = np.frombuffer(read_exactly(fd, 8 * n), "<i8")
    original = np.frombuffer(read_exactly(fd, 8 * n), "<i8")
    return images, labels, original, ways, shots


def read_query(fd: int, image: tuple[int, int, int]) -> np.ndarray:
    """Read what pack_query wrote."""
    _, n = _QUERY.unpack(read_exactly(fd, _QUERY.size))
    return np.frombuffer(read_exactly(fd, n * int(np.prod(image))), np.uint8).reshape(n, *image)


def pack_block(block: FileBlock, data: bytes = b"", name: str = "") -> bytes:
    """One block of the stream of saved files: always the same size, whatever it carries."""
    return (_BLOCK.pack(MAGIC, block, len(data), name.encode()[:NAME_BYTES]) + data).ljust(BLOCK_BYTES, b"\x00")


def unpack_block(raw: bytes) -> tuple[FileBlock, bytes, str]:
    """Read a block; its content is never longer than the block itself."""
    magic, block, used, name = _BLOCK.unpack_from(raw)
    if magic != MAGIC or block not in (1, 2, 3) or used > 1 << 16:
        raise BadFrame("not a block of saved files")
    try:
        return FileBlock(block), bytes(raw[_BLOCK.size : _BLOCK.size + used]), name.rstrip(b"\x00").decode("utf-8")
    except UnicodeDecodeError as problem:
        raise BadFrame("a saved file's name is not text") from problem


def check_answer(raw: bytes, kind: Kind, queries: int, ways: int) -> tuple[np.ndarray | None, str, str]:
    """Turn the child's array into scores (queries, ways), or give a failure code and what is wrong with it."""
    array = np.frombuffer(raw, "<f4").reshape(queries, ways)
    if kind == Kind.LABELS:
        labels = array[:, 0]
        if not np.isfinite(labels).all():
            return None, "NAN", "predict returned labels that are not finite numbers"
        if (labels != np.round(labels)).any():
            return None, "BAD_LABEL", "predict returned labels that are not whole numbers"
        if labels.min() < 0 or labels.max() >= ways:
            return None, "BAD_LABEL", f"predict returned labels outside 0..{ways - 1}; return the task's own labels"
        return np.eye(ways, dtype=np.float32)[labels.astype(np.int64)], "", ""
    if np.isnan(array).any() or np.isinf(array).any():
        return None, "NAN", "predict returned NaN or infinite scores; check for division by zero or overflow"
    return array.astype(np.float32), "", ""
