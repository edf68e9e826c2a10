"""Small pair collections for the tests."""

from __future__ import annotations

import numpy as np

from handful.data.collection import Card, Collection, as_table


def grid(
    cells: list[tuple[int, int]], each: int = 12, size: int = 16, split: str = "test", noise: float = 8.0
) -> Collection:
    """Images whose upper half shows the first primitive and whose lower half the second, one tone or pattern each."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 256, (2, 64, 3))
    pair = np.repeat(np.arange(len(cells)), each)
    a, b = (np.asarray([c[i] for c in cells])[pair] for i in range(2))
    images = np.zeros((len(pair), size, size, 3))
    images[:, : size // 2] = first[a][:, None, None]
    images[:, size // 2 :] = second[b][:, None, None]
    images = np.clip(images + rng.normal(0, noise, images.shape), 0, 255).astype(np.uint8)
    table = as_table(
        {"tone": [f"t{x:02d}" for x in a], "thing": [f"o{x:02d}" for x in b], "split": [split] * len(pair)}
    )
    card = Card("grid", "images", (size, size, 3), ("tone", "thing"), schemes=("split",), hash=f"{len(pair):064d}")
    return Collection(card, table, images)


def full(n1: int, n2: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(n1) for j in range(n2)]


def sparse(n1: int, n2: int, share: float, seed: int = 0) -> list[tuple[int, int]]:
    keep = np.random.default_rng(seed).random((n1, n2)) < share
    return [(i, j) for i, j in full(n1, n2) if keep[i, j]]
