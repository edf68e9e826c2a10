"""Collections in memory with classes of given sizes, groups, ids and data sets."""

from __future__ import annotations

import hashlib

import numpy as np

from handful.data.collection import Card, Collection, as_table


def sized(
    sizes: list[int],
    *,
    groups: list[str | None] | None = None,
    ids: list[str] | None = None,
    datasets: list[str] | None = None,
) -> Collection:
    """One class a number of images; images are a pixel with noise, because nobody looks at them here."""
    label = np.repeat(np.arange(len(sizes)), sizes)
    images = np.random.default_rng(0).integers(0, 256, (len(label), 2, 2, 1)).astype(np.uint8)
    columns: dict[str, list[str | None]] = {"kind": [f"k{c:03d}" for c in label]}
    for name, values in (("alphabet", groups), ("wnid", ids), ("dataset", datasets)):
        if values is not None:
            columns[name] = [values[c] for c in label]
    columns["split"] = ["test"] * len(label)
    digest = hashlib.sha256(repr((sizes, groups, ids, datasets)).encode()).hexdigest()
    card = Card("sized", "images", (2, 2, 1), ("kind",), schemes=("split",), hash=digest)
    return Collection(card, as_table(columns), images)
