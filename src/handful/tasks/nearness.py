"""How near the classes of a part are to each other, for tasks that are hard on purpose."""

from __future__ import annotations

import numpy as np

from handful.data.collection import Part
from handful.errors import BadInput

EACH = 20
GRID = 8


def nearness(part: Part, by: str) -> np.ndarray:
    """``(C, C)``, larger is nearer: by mean ``pixels``, by ``words:FILE``, by ``tree:FILE`` or as ``matrix:FILE`` says."""
    kind, _, file = by.partition(":")
    if kind == "pixels" and not file:
        return _cosine(_looks(part))
    if kind == "words" and file:
        return _cosine(_vectors(part, file))
    if kind == "tree" and file:
        return _in_tree(part, file)
    if kind == "matrix" and file:
        return _given(part, file)
    raise BadInput(f"near is pixels, words:FILE, tree:FILE or matrix:FILE, not {by!r}")


def _looks(part: Part) -> np.ndarray:
    """Mean of the first images of each class, on a coarse grid (or of its features), less the mean over classes."""
    members, out = part.members, []
    for c in range(part.n_classes):
        rows = np.sort(members.values[members.starts[c] : members.starts[c] + min(EACH, members.sizes[c])])
        images = np.asarray(part.collection.read(rows), dtype=np.float64)
        mean = images.mean(0)
        if mean.ndim == 3:
            mean = np.stack([cut.mean((0, 1)) for band in _cut(mean, 0) for cut in _cut(band, 1)])
        out.append(mean.ravel())
    x = np.stack(out)
    return x - x.mean(0)


def _cut(x: np.ndarray, axis: int) -> list[np.ndarray]:
    return np.array_split(x, min(GRID, x.shape[axis]), axis)


def _vectors(part: Part, file: str) -> np.ndarray:
    from handful.data.words import WordVectors

    x = WordVectors.open(file).of(_last(part)).astype(np.float64)
    return x - x.mean(0)


def _last(part: Part) -> list[str]:
    """The classes' own names: of category/kind, the kind."""
    return [name.split("/")[-1] for name in part.class_names]


def _in_tree(part: Part, spec: str) -> np.ndarray:
    """Minus the length of the shortest path between two classes through a taxonomy."""
    from handful.tasks.hierarchy import read_tree

    names = _last(part)
    return -read_tree(spec).distances(names, names).astype(np.float64)


def _given(part: Part, file: str) -> np.ndarray:
    try:
        found = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadInput(f"{file} is no matrix that NumPy can read ({error}); write one with numpy.save") from error
    n = part.n_classes
    if not isinstance(found, np.ndarray) or found.shape != (n, n) or found.dtype.kind not in "fiu":
        shape = getattr(found, "shape", "several arrays")
        raise BadInput(f"{file} must be a matrix of numbers over the {n} classes of {part.id}, not {shape}")
    return found.astype(np.float64)


def _cosine(x: np.ndarray) -> np.ndarray:
    unit = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    return unit @ unit.T
