"""Which of a word's meanings its vector is near to: the nearest words of the word and of its classes' parents, in a plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from handful.audits.zero_shot.semantic import Meanings, labels_of, similarity
from handful.data.taxonomy import Taxonomy
from handful.data.words import WordVectors
from handful.errors import BadInput


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """The nearest words of some words (Figure 4): their rows among the vectors, and where they lie in a plane.

    The plane is that of the two largest principal components of all that is drawn, at unit length.
    """

    words: tuple[str, ...]
    rows: tuple[NDArray[np.int64], ...]
    points: tuple[NDArray[np.float64], ...]


def neighbourhoods(vectors: WordVectors, words: Sequence[str], n: int = 100) -> Neighbourhoods:
    """The n words nearest to each word by cosine, the word itself among them."""
    if n < 1:
        raise BadInput(f"neighbourhoods need at least one word, not {n}")
    asked = vectors.of(words).astype(np.float64)
    length = np.linalg.norm(vectors.matrix, axis=1)
    near = vectors.matrix @ asked.T.astype(vectors.matrix.dtype) / np.where(length > 0, length, np.inf)[:, None]
    rows = tuple(np.argsort(-near[:, i], kind="stable")[:n] for i in range(len(words)))
    union, place = np.unique(np.concatenate(rows), return_inverse=True)
    drawn = vectors.matrix[union].astype(np.float64) / np.maximum(length[union], 1e-12)[:, None]
    centred = drawn - drawn.mean(0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    # An axis points either way; the one in which its largest entry is positive.
    axes = axes[:2] * np.sign(axes[:2][np.arange(len(axes[:2])), np.abs(axes[:2]).argmax(1)])[:, None]
    plane = centred @ axes.T
    plane = np.pad(plane, ((0, 0), (0, 2 - plane.shape[1])))
    points = np.split(plane[place], np.cumsum([len(r) for r in rows])[:-1])
    return Neighbourhoods(tuple(words), rows, tuple(points))


def clearest(
    taxonomy: Taxonomy, vectors: WordVectors, found: Meanings, among: Sequence[str] = (), n: int = 100
) -> Neighbourhoods | None:
    """Of the classes that are a secondary meaning of their word, the one whose word is nearest to another class instead: the
    neighbourhoods of the word and of a parent of either class. None where no class is."""
    pool = np.unique(taxonomy.index([*found.classes.tolist(), *among]))
    carriers: dict[str, list[int]] = {}
    for node in pool.tolist():
        for word in {w.lower() for w in taxonomy.words(node)}:
            carriers.setdefault(word, []).append(node)
    best: tuple[float, tuple[str, str, str]] | None = None
    nodes = taxonomy.index(found.classes.tolist()).tolist()
    for i in np.flatnonzero(found.described & ~found.primary & np.isfinite(found.score)).tolist():
        word = found.words[i]
        first = max(carriers[word.lower()], key=lambda c: (similarity(taxonomy, vectors, word.lower(), c), -c))
        gap = similarity(taxonomy, vectors, word.lower(), first) - float(found.score[i])
        parents = [_parent(taxonomy, vectors, node, word) for node in (first, nodes[i])]
        if first != nodes[i] and all(parents) and (best is None or gap > best[0]):
            best = gap, (word, str(parents[0]), str(parents[1]))
    return None if best is None else neighbourhoods(vectors, best[1], min(n, len(vectors)))


def _parent(taxonomy: Taxonomy, vectors: WordVectors, node: int, but: str) -> str | None:
    """A label of a class's parents that has a vector, and is another word."""
    above = taxonomy.parents(np.array([node]))
    labels = [w for w in labels_of(taxonomy, above, vectors) if w.lower() != but.lower()]
    return next((w for w in labels if vectors.vector(w) is not None), None)
