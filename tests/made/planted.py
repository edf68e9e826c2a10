"""A hierarchy with known truth: classes are sets of attributes, images show them, the knob moves test classes together."""

from __future__ import annotations

import numpy as np

from handful.data.collection import Card, Collection, as_table
from handful.data.semantics import Semantics
from handful.data.taxonomy import Taxonomy

ATTRIBUTES, WIDTH = 12, 32


def planted(
    together: float = 0.0, *, n_test: int = 10, each: int = 20, noise: float = 0.35, seed: int = 0
) -> tuple[Collection, Semantics]:
    """Zebra = horse + stripes, or a branch of its own.

    A share ``together`` of the test classes lives in one far branch, siblings of one another, each a new composition of
    attributes; the others sit beside one training class each and differ from it by one attribute (low structural ratio).
    """
    rng = np.random.default_rng(seed)
    edges, attributes, split_of = [], {}, {}
    far = round(together * n_test)
    patterns = distinct(rng, 3 * n_test)
    for i in range(2 * n_test):
        edges.append((f"family{i:02d}", "thing"))
        name = f"train{i:02d}"
        edges.append((name, f"family{i:02d}"))
        attributes[name], split_of[name] = patterns[i], "train" if i % 5 else "valid"
    edges += [("a", "thing"), ("b", "a"), ("c", "b")]
    near = [i for i in range(2 * n_test) if i % 5]
    for j in range(n_test):
        name = f"test{j:02d}"
        if j < far:
            edges.append((name, "c"))
            attributes[name] = patterns[2 * n_test + j]
        else:
            edges.append((name, f"family{near[j]:02d}"))
            attributes[name] = patterns[near[j]].copy()
            attributes[name][j % ATTRIBUTES] = 1 - attributes[name][j % ATTRIBUTES]
        split_of[name] = "test"
    names = sorted(attributes)
    matrix = np.array([attributes[n] for n in names], dtype=np.float32)
    label = np.repeat(np.arange(len(names)), each)
    shows = rng.normal(size=(ATTRIBUTES, WIDTH))
    x = (matrix[label] @ shows + noise * rng.normal(size=(len(label), WIDTH)) * np.sqrt(ATTRIBUTES)).astype(np.float32)
    split = np.array([split_of[names[c]] for c in label], dtype="U9")
    split[(split == "train") & (np.arange(len(label)) % each >= each - 5)] = "test_seen"
    card = Card(
        f"planted-{together}",
        "features",
        (WIDTH,),
        ("kind",),
        schemes=("split",),
        hash=f"{seed:04d}{far:04d}".ljust(64, "0"),
    )
    table = as_table({"kind": np.array(names)[label], "split": split})
    return Collection(card, table, x), Semantics.of(names, matrix, Taxonomy.of(edges), source="planted attributes")


def distinct(rng: np.random.Generator, n: int) -> np.ndarray:
    """Random attribute vectors, any two of which differ in three places or more."""
    out: list[np.ndarray] = []
    while len(out) < n:
        one = (rng.random(ATTRIBUTES) < 0.5).astype(float)
        if all(np.abs(one - other).sum() >= 3 for other in out):
            out.append(one)
    return np.array(out)
