"""Arrays from a stranger's file: .npz, .h5 and .mat, none larger than this machine's memory, none from elsewhere.

scipy's reader of .mat files can crash the interpreter on a damaged one, so it runs in a process of its own with limits.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from handful.data.importers import matlab
from handful.errors import BadInput, require

_SECONDS = 900


def memory_bytes() -> int:
    """The memory of this machine."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 64 << 30


def _check_size(file: Path, name: str, shape: Sequence[int], itemsize: int) -> int:
    size = math.prod(int(n) for n in shape) * itemsize
    if size > memory_bytes():
        raise BadInput(
            f"{file}: the array {name} of shape {tuple(shape)} needs {size / 2**30:,.0f} GB, more memory than this "
            "machine has; the file is damaged, or has to be split"
        )
    return size


def read_npz(file: Path, names: Sequence[str]) -> dict[str, Any]:
    """The arrays of ``names`` that a .npz file has, and the names of the others with None."""
    try:
        with zipfile.ZipFile(file) as stored, np.load(file, allow_pickle=False) as arrays:
            found: dict[str, Any] = dict.fromkeys(arrays.files)
            for name in names:
                if name in found:
                    _check_header(file, stored, name)
                    found[name] = arrays[name]
            return found
    except (OSError, ValueError, EOFError, KeyError, MemoryError, NotImplementedError, zipfile.BadZipFile) as error:
        if "Object arrays" in str(error):
            raise BadInput(f"{file} holds Python objects, not an array of text; save labels.astype(str)") from error
        if isinstance(error, zipfile.BadZipFile) and not _begins_as_zip(file):
            raise BadInput(f"{file} is not a .npz file; save one with numpy.savez(features=..., labels=...)") from error
        raise BadInput(f"{file} cannot be read as .npz ({error or type(error).__name__})") from error


def _begins_as_zip(file: Path) -> bool:
    with open(file, "rb") as stream:
        return stream.read(2) == b"PK"


def _check_header(file: Path, stored: zipfile.ZipFile, name: str) -> None:
    """Refuse an array whose header claims more than there is memory for, or than its member holds."""
    inside = f"{name}.npy" if f"{name}.npy" in stored.namelist() else name
    with stored.open(inside) as member:
        if member.read(6) != b"\x93NUMPY":
            return
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
    h5py = require("h5py", "features")
    try:
        with h5py.File(file, "r") as stored:
            if group and group in stored and _is_group(stored, group):
                return {name: _h5_array(h5py, stored[group], name, file) for name in sorted(stored[group])}
            found: dict[str, Any] = dict.fromkeys(stored)
            return found | {name: _h5_array(h5py, stored, name, file) for name in names if name in found}
    except (OSError, RuntimeError, ValueError, TypeError, KeyError, MemoryError) as error:
        raise BadInput(f"{file} cannot be read as HDF5 ({error})") from error


def _is_group(stored: Any, name: str) -> bool:
    """Whether a name stands for a group of this very file."""
    h5py = require("h5py", "features")
    return isinstance(stored.get(name, getlink=True), h5py.HardLink) and isinstance(stored[name], h5py.Group)


def _h5_array(h5py: Any, stored: Any, name: str, file: Path) -> np.ndarray:
    # A link within the file may lead to one that leaves it.
    if not isinstance(stored.get(name, getlink=True), h5py.HardLink):
        raise BadInput(f"{file}: {name} is a link, perhaps into another file; store the array itself")
    array = stored[name]
    if not isinstance(array, h5py.Dataset):
        raise BadInput(f"{file}: {name} is a group, not an array")
    if array.external or array.is_virtual:
        raise BadInput(f"{file}: {name} is stored in other files; copy the array into this one")
    _check_size(file, name, array.shape or (), array.dtype.itemsize)
    return np.asarray(array)


def read_mat(file: Path, names: Sequence[str], called: str = "") -> dict[str, Any]:
    """The arrays of ``names`` that a .mat file has, and the names of the others with None; cells of text become text.

    A name may be that of a structure's field (``list_action.vname``). Errors name the file as it is ``called``.
    """
    called = called or str(file)
    with tempfile.TemporaryDirectory(prefix="handful-mat-") as place:
        target = Path(place) / "arrays.npz"
        limit = min(memory_bytes(), (4 << 30) + 16 * file.stat().st_size)
        request = {"file": str(file.resolve()), "target": str(target), "names": list(names), "bytes": limit}
        command = [sys.executable, "-I", matlab.__file__, json.dumps({**request, "paths": sys.path})]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise BadInput(f"{called}: reading it took more than {_SECONDS} seconds; the file is damaged") from None
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            crashed = done.returncode < 0 or done.returncode > 2
            why = "reading it crashed, so it is damaged" if crashed or not said else said[-1][:300]
            raise BadInput(f"{called} cannot be read ({why}); save it in MATLAB's version 5 format")
        with np.load(target, allow_pickle=False) as arrays:
            listed = json.loads(str(arrays["__names__"]))
            return dict.fromkeys(listed) | {name: arrays[name] for name in names if name in arrays.files}
