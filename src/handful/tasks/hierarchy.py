"""Sets of related classes to draw a task from: those that share a value, or the leaves below one node of a taxonomy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from handful.data.bfs import reach
from handful.data.collection import Groups, Part
from handful.data.taxonomy import Taxonomy
from handful.data.taxonomy_csv import from_csv
from handful.errors import BadInput, Infeasible


def read_tree(spec: str) -> Taxonomy:
    """``wordnet``, a CSV of child,parent rows, or a taxonomy that was saved as .npz."""
    if spec == "wordnet":
        from handful.data.wordnet import wordnet

        return wordnet()
    return Taxonomy.load(Path(spec)) if spec.endswith(".npz") else from_csv(Path(spec))


def value_of_class(part: Part, column: str) -> np.ndarray:
    """The value of ``column`` that the images of each class share, empty where they have none."""
    if column not in part.collection.table.columns:
        part.column(column)
    values = part.collection.table[column][part.rows].cast(pl.String).fill_null("").to_numpy().astype(str)
    first = np.full(part.n_classes, -1, dtype=np.int64)
    first[part.classes[::-1]] = np.arange(len(values))[::-1]
    of_class = values[first]
    odd = np.flatnonzero(values != of_class[part.classes])
    if len(odd):
        name = part.class_names[part.classes[odd[0]]]
        raise Infeasible(
            f"class {name} of {part.id} has several values in column {column!r}; use a column that every class has one "
            "value of"
        )
    return of_class


def groups(part: Part, column: str, pool: np.ndarray, low: int) -> tuple[list[np.ndarray], list[str]]:
    """Classes of ``pool`` that share a value of ``column``, where at least ``low`` do; and the values."""
    values = value_of_class(part, column)[pool]
    found = [(name, pool[values == name]) for name in np.unique(values[values != ""]).tolist()]
    large = [(name, own) for name, own in found if len(own) >= low]
    return [own for _, own in large], [name for name, _ in large]


def id_column(part: Part, wanted: str) -> str:
    """Where the classes' ids in a taxonomy are: the column asked for, ``wnid`` if there is one, else the last label."""
    if wanted:
        return wanted
    card = part.collection.card
    return "wnid" if "wnid" in part.collection.table.columns else card.labels[-1]


def subtrees(
    part: Part, tree: Taxonomy, column: str, pool: np.ndarray, low: int, most: int
) -> tuple[list[np.ndarray], list[str]]:
    """Classes of ``pool`` below each node that spans ``low`` to ``most`` of them; and the nodes' ids, ascending.

    The graph is that of the classes and everything above them; nodes with a single child in it are passed over, as in
    Meta-Dataset's sampling graph, so that a chain does not count as many. A class above another belongs to its own
    sub-tree.
    """
    ids = value_of_class(part, column)[pool]
    if (ids == "").any():
        name = part.class_names[pool[int(np.argmax(ids == ""))]]
        raise BadInput(f"class {name} of {part.id} has no value in column {column!r}; give its id in {tree.source}")
    nodes = tree.index(ids, where=f"column {column!r} of {part.id}")
    graph = tree.subgraph(nodes, with_ancestors=True)
    own = graph.index(ids)
    at, above, _ = reach(*graph.up, own)
    is_class = np.zeros(len(graph), dtype=np.int64)
    is_class[own] = 1
    inner = np.flatnonzero(is_class & (np.diff(graph.down[0]) > 0))
    itself = np.flatnonzero(np.isin(own, inner))
    spans = Groups.of(np.concatenate([at, itself]), np.concatenate([above, own[itself]]), len(graph))
    children = np.diff(graph.down[0]) + is_class * (np.diff(graph.down[0]) > 0)
    fit = np.flatnonzero((children >= 2) & (spans.sizes >= low) & (spans.sizes <= most))
    return [pool[np.sort(spans[n])] for n in fit.tolist()], [str(graph.ids[n]) for n in fit]
