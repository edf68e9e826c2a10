"""Small raw sources: coloured squares written as real image files."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from handful.cli import main

MAIN = "from handful.cli import main; main()"


def encoded(pixels: np.ndarray, kind: str = "PNG", **options: object) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format=kind, **options)
    return out.getvalue()


def noise(seed: int, h: int = 20, w: int = 20) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (h, w, 3)).astype(np.uint8)


def photo(seed: int, h: int = 64, w: int = 64) -> bytes:
    return encoded(noise(seed, h, w), "JPEG")


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[dict[str, bytes | str]], Path]:
    """Write files by name below a folder of the test's own."""

    def write(files: dict[str, bytes | str], name: str = "raw") -> Path:
        for file, content in files.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / name

    return write


def class_files(classes: int = 4, each: int = 5) -> dict[str, bytes | str]:
    return {f"c{c}/{i}.png": encoded(noise(100 * c + i)) for c in range(classes) for i in range(each)}


@dataclass(frozen=True)
class Ended:
    returncode: int
    stdout: str
    stderr: str


def handful(*arguments: object, cwd: Path | None = None) -> Ended:
    """The command line, in this process."""
    out, complaints, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(complaints), chdir(cwd or Path.cwd()):
        try:
            main([str(a) for a in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
    return Ended(code, out.getvalue(), complaints.getvalue())
