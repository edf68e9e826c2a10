"""Reads arrays of a .mat or HDF5 file and writes them as .npz: a program of its own.

A damaged file can crash scipy, and keep the HDF5 library busy for ever. It imports nothing of handful, so that it starts
quickly; ``arrays.read_mat`` and ``arrays.read_h5`` run it.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from typing import Any


def too_large(name: str, shape: Sequence[int], itemsize: int, memory: int) -> str:
    """Why an array cannot be read, if it claims more than the machine has."""
    size = math.prod(int(n) for n in shape) * itemsize
    if size <= memory:
        return ""
    return (
        f"the array {name} of shape {tuple(shape)} needs {size / 2**30:,.0f} GB, more memory than this machine has; "
        "the file is damaged, or has to be split"
    )


def limit(most: int, seconds: int) -> None:
    """No more memory than this, no core file, an end."""
    try:
        import resource
    except ImportError:  # not on this system: only the caller's clock is left
        return
    wanted = [(resource.RLIMIT_AS, most), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, seconds)]
    for what, value in wanted:
        hard = resource.getrlimit(what)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            resource.setrlimit(what, (value, hard))
        except (OSError, ValueError):  # macOS does not take a limit on address space
            continue


def plain(name: str, value: Any) -> Any:
    """An array without Python objects: cells of text become text."""
    import numpy as np

    array = np.asarray(value)
    if array.dtype.kind == "O":
        array = np.array(
            [str(text[0]) if len(text := np.asarray(cell).reshape(-1)) else "" for cell in array.reshape(-1)]
        )
    if array.dtype.kind not in "biufUS":
        raise ValueError(f"{name} is not an array of numbers or text")
    return array


def from_mat(request: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The names of the variables, and those asked for; ``list_action.vname`` is a structure's field."""
    from scipy.io import loadmat, whosmat

    listed = [name for name, _, _ in whosmat(request["file"])]
    wanted = {name.split(".")[0] for name in request["names"]}
    found = loadmat(request["file"], variable_names=[n for n in listed if n in wanted])
    arrays = {}
    for name in request["names"]:
        whole, _, field = name.partition(".")
        if whole in found and (not field or field in (found[whole].dtype.names or ())):
            arrays[name] = plain(name, found[whole][field] if field else found[whole])
    return listed, arrays


def from_h5(request: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """The names of the file, and the arrays asked for; or, where the file has the group asked for, all of the group's."""
    import h5py

    with h5py.File(request["file"], "r") as stored:
        group = request["group"]
        if group and group in stored and _own(h5py, stored, group) and isinstance(stored[group], h5py.Group):
            names = sorted(stored[group])
            return names, {name: _h5_array(h5py, stored[group], name, request["memory"]) for name in names}
        listed = list(stored)
        wanted = [name for name in request["names"] if name in listed]
        return listed, {name: _h5_array(h5py, stored, name, request["memory"]) for name in wanted}


def _own(h5py: Any, stored: Any, name: str) -> bool:
    """Whether a name stands for something in this very file; a link within it may lead to one that leaves it."""
    return isinstance(stored.get(name, getlink=True), h5py.HardLink)


def _h5_array(h5py: Any, stored: Any, name: str, memory: int) -> Any:
    import numpy as np

    if not _own(h5py, stored, name):
        raise ValueError(f"{name} is a link, perhaps into another file; store the array itself")
    array = stored[name]
    if not isinstance(array, h5py.Dataset):
        raise ValueError(f"{name} is a group, not an array")
    if array.external or array.is_virtual:
        raise ValueError(f"{name} is stored in other files; copy the array into this one")
    if why := too_large(name, array.shape or (), array.dtype.itemsize, memory):
        raise ValueError(why)
    values = np.asarray(array)
    if values.dtype.kind == "O":
        values = np.array([v.decode() if isinstance(v, bytes) else str(v) for v in values.reshape(-1).tolist()])
    return plain(name, values)


def main(request: dict[str, Any]) -> None:
    """Read and write what was asked for."""
    sys.path += [path for path in request["paths"] if path not in sys.path]
    limit(request["bytes"], request["seconds"])
    import numpy as np

    listed, arrays = (from_h5 if request["kind"] == "h5" else from_mat)(request)
    # Names of a stranger's choice are no names for members of a zip.
    numbered = {f"a{i}": array for i, array in enumerate(arrays.values())}
    np.savez(request["target"], __names__=np.array(json.dumps([listed, list(arrays)])), **numbered)


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except Exception as error:
        print(" ".join((str(error) or type(error).__name__).split()), file=sys.stderr)
        sys.exit(1)
