"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from handful.errors import BadInput

BLOCK = 1 << 22


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
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
