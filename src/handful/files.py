"""Files and folders that appear whole or not at all; files of strangers that are read or refused, and nothing else."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handful.errors import BadInput

if TYPE_CHECKING:
    import numpy as np

BLOCK = 1 << 22
DEPTH = 64
TEXT_CAP, TOML_CAP = 1 << 28, 1 << 22
# What a value of another shape than expected raises while it is taken apart.
WRONG = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError)
# tomllib's time grows with the square of a key's parts.
_LONG_KEY = re.compile(r"""(?<![\w"'-])(?:[\w"'-]+[ \t]*\.[ \t]*){64}""")


@contextmanager
def fresh_folder(target: Path, force: bool = False) -> Iterator[Path]:
    """A temporary folder beside ``target`` that takes its name only when the block ends without an error."""
    if target.exists() and not force and any(target.iterdir() if target.is_dir() else [target]):
        raise BadInput(f"{target} exists and is not empty; name another folder or remove it first")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield temporary
        os.chmod(temporary, 0o755)
        if target.exists():  # swapped, so that no moment has neither the old nor the new
            aside = temporary.with_name(temporary.name + "-old")
            os.replace(target, aside)
            os.replace(temporary, target)
            shutil.rmtree(aside)
        else:
            os.replace(temporary, target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write`` with a temporary name beside ``path``, then rename; a killed writer leaves no half file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):  # people know the file that they asked for, not the one that was to become it
            error.filename, error.filename2 = str(path), None
        raise


def file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def parse_json(text: str | bytes) -> Any:
    """What JSON says; whatever is wrong with it, nesting without end too, is a ValueError."""
    return _bounded(json.loads, text)


def parse_toml(text: str) -> dict[str, Any]:
    """What TOML says; whatever is wrong with it, nesting without end too, is a ValueError."""
    if len(text) > TOML_CAP:
        raise ValueError(f"it is longer than {TOML_CAP >> 20} MB")
    if _LONG_KEY.search(text):
        raise ValueError(f"it is nested more than {DEPTH} deep")
    return _bounded(tomllib.loads, text)


def _bounded(parse: Callable[[Any], Any], text: str | bytes) -> Any:
    """Parsers end in a RecursionError somewhere beyond a thousand levels, and what reads the values would before that."""
    try:
        value = parse(text)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEPTH} deep") from None
    level: list[Any] = [[value]]
    for _ in range(DEPTH):
        level = [v for c in level for v in (c.values() if isinstance(c, dict) else c) if isinstance(v, dict | list)]
        if not level:
            return value
    raise ValueError(f"it is nested more than {DEPTH} deep")


def read_text(path: Path) -> str:
    """UTF-8 text, with or without a byte order mark; an OSError or a ValueError if it cannot be had."""
    if path.stat().st_size > TEXT_CAP:
        raise ValueError(f"it is longer than {TEXT_CAP >> 20} MB")
    return path.read_text(encoding="utf-8-sig")


def read_json(path: Path) -> Any:
    """A JSON file; an OSError or a ValueError if it cannot be had."""
    return parse_json(read_text(path))


def read_rows(path: Path) -> list[list[str]]:
    """The rows of a CSV file; an OSError or a ValueError if they cannot be had."""
    try:
        return list(csv.reader(io.StringIO(read_text(path), newline="")))
    except csv.Error as error:
        raise ValueError(str(error)) from error


def read_npy(path: Path) -> np.ndarray:
    """An array mapped from a .npy file, so that it cannot claim more than the file has; an OSError or a ValueError else."""
    import numpy as np

    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        raise
    except Exception as error:  # numpy parses the header as Python, and a damaged one ends in any of its errors
        raise ValueError(f"its header is damaged ({type(error).__name__})") from error
    if not isinstance(array, np.ndarray):
        raise ValueError("it is an archive of arrays, not one")
    return array
