"""Arrays from a stranger's file: .npz, .h5 and .mat, none larger than this machine's memory, none from elsewhere.

The readers of .mat and HDF5 files can crash or hang on a damaged one, so they run in a process of their own with limits.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from handful.data.importers import apart
from handful.errors import BadInput, require

# Beside a second for each megabyte: a tenth of what the slowest disk gives.
_SECONDS = 20


def memory_bytes() -> int:
    """The memory of this machine."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 64 << 30


def _check_size(file: Path, name: str, shape: Sequence[int], itemsize: int) -> int:
    if why := apart.too_large(name, shape, itemsize, memory_bytes()):
        raise BadInput(f"{file}: {why}")
    return math.prod(int(n) for n in shape) * itemsize


def read_npz(file: Path, names: Sequence[str]) -> dict[str, Any]:
    """The arrays of ``names`` that a .npz file has, and the names of the others with None."""
    try:
        with zipfile.ZipFile(file) as stored, np.load(file, allow_pickle=False) as arrays:
            found: dict[str, Any] = dict.fromkeys(arrays.files)
            for name in names:
                if name in found:
                    _check_header(file, stored, name)
                    found[name] = _plain(name, arrays[name])
            return found
    except BadInput:
        raise
    except Exception as error:  # zipfile, zlib and numpy's parser of headers each end a damaged file in their own way
        if "Object arrays" in str(error):
            raise BadInput(f"{file} holds Python objects, not an array of text; save labels.astype(str)") from error
        if isinstance(error, zipfile.BadZipFile) and not _begins_as_zip(file):
            raise BadInput(f"{file} is not a .npz file; save one with numpy.savez(features=..., labels=...)") from error
        raise BadInput(f"{file} cannot be read as .npz ({error or type(error).__name__})") from error


def _plain(name: str, array: np.ndarray) -> np.ndarray:
    """The array, if it holds numbers or text."""
    if array.dtype.kind not in "biufUS":
        raise ValueError(f"{name} holds {array.dtype}, neither numbers nor text")
    if array.dtype.kind == "U" and array.size and array.dtype.itemsize:
        codes = np.ascontiguousarray(array).view(
            np.uint32 if array.dtype.isnative else np.dtype(np.uint32).newbyteorder()
        )
        if ((codes > 0x10FFFF) | ((codes >= 0xD800) & (codes < 0xE000))).any():
            raise ValueError(f"{name} holds text that is none")
    return array


def _begins_as_zip(file: Path) -> bool:
    with open(file, "rb") as stream:
        return stream.read(2) == b"PK"


def _check_header(file: Path, stored: zipfile.ZipFile, name: str) -> None:
    """Refuse an array whose header claims more than there is memory for, or than its member holds."""
    inside = f"{name}.npy" if f"{name}.npy" in stored.namelist() else name
    with stored.open(inside) as member:
        if member.read(6) != b"\x93NUMPY":
            raise ValueError(f"{name} is not an array")
    with stored.open(inside) as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
        size = _check_size(file, name, shape, dtype.itemsize)
        held = stored.getinfo(inside).file_size - member.tell()
    if dtype.kind != "O" and size != held:
        raise BadInput(f"{file}: the array {name} claims {size} bytes and has {held}; the file is damaged")


def read_h5(file: Path, names: Sequence[str], group: str = "") -> dict[str, Any]:
    """The arrays of ``names`` that an HDF5 file has, and the names of the others with None; nothing from other files.

    Where the file has a group named ``group``, all arrays of the group instead.
    """
    require("h5py", "features")
    try:
        return _apart(file, "h5", names, group)
    except ValueError as error:
        raise BadInput(f"{file} cannot be read as HDF5 ({error})") from error


def read_mat(file: Path, names: Sequence[str], called: str = "") -> dict[str, Any]:
    """The arrays of ``names`` that a .mat file has, and the names of the others with None; cells of text become text.

    A name may be that of a structure's field (``list_action.vname``). Errors name the file as it is ``called``.
    """
    try:
        return _apart(file, "mat", names)
    except ValueError as error:
        raise BadInput(f"{called or file} cannot be read ({error}); save it in MATLAB's version 5 format") from error


def _apart(file: Path, kind: str, names: Sequence[str], group: str = "") -> dict[str, Any]:
    """What the program beside this file reads; a ValueError if it cannot."""
    size = file.stat().st_size
    with tempfile.TemporaryDirectory(prefix="handful-arrays-") as place:
        target = Path(place) / "arrays.npz"
        request: dict[str, Any] = {
            "kind": kind,
            "file": str(file.resolve()),
            "target": str(target),
            "names": list(names),
            "group": group,
        }
        request |= {"memory": memory_bytes(), "bytes": min(memory_bytes(), (4 << 30) + 16 * size)}
        seconds = _SECONDS + (size >> 20)
        command = [sys.executable, "-I", apart.__file__, json.dumps({**request, "seconds": seconds, "paths": sys.path})]
        try:
            # The program ends itself after so much processor time; a machine that is busy may take longer.
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=10 * seconds)
        except subprocess.TimeoutExpired:
            raise ValueError(f"reading it took more than {10 * seconds} seconds, so it is damaged") from None
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            if done.returncode == -signal.SIGXCPU:
                raise ValueError(f"reading it took more than {seconds} seconds, so it is damaged")
            if done.returncode != 1 or not said:
                raise ValueError("reading it crashed, so it is damaged")
            raise ValueError(said[-1][:300])
        with np.load(target, allow_pickle=False) as arrays:
            listed, read = json.loads(str(arrays["__names__"]))
            return dict.fromkeys(listed) | {name: arrays[f"a{i}"] for i, name in enumerate(read)}
