"""Reads arrays of a .mat file and writes them as .npz: a program of its own, since a damaged file can crash scipy.

It imports nothing of handful, so that it starts quickly; ``arrays.read_mat`` runs it.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def limit(most: int) -> None:
    """No more memory than this, no core file, an end."""
    try:
        import resource
    except ImportError:  # not on this system: only the caller's clock is left
        return
    wanted = [(resource.RLIMIT_AS, most), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, 900)]
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


def main(request: dict[str, Any]) -> None:
    """Read and write what was asked for."""
    sys.path += [path for path in request["paths"] if path not in sys.path]
    limit(request["bytes"])
    import numpy as np
    from scipy.io import loadmat, whosmat

    listed = [name for name, _, _ in whosmat(request["file"])]
    found = loadmat(
        request["file"], variable_names=[n for n in listed if n in {w.split(".")[0] for w in request["names"]}]
    )
    arrays = {}
    for name in request["names"]:
        whole, _, field = name.partition(".")
        if whole in found and (not field or field in (found[whole].dtype.names or ())):
            arrays[name] = plain(name, found[whole][field] if field else found[whole])
    np.savez(request["target"], __names__=np.array(json.dumps(listed)), **arrays)


if __name__ == "__main__":
    try:
        main(json.loads(sys.argv[1]))
    except Exception as error:
        print(str(error) or type(error).__name__, file=sys.stderr)
        sys.exit(1)
