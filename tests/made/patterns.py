"""Small collections made in memory."""

from __future__ import annotations

import hashlib

import numpy as np

from handful.data.collection import Card, Collection, as_table


def blobs(n_classes: int = 15, each: int = 30, size: int = 16, noise: float = 60.0, seed: int = 0) -> Collection:
    """Images of random colour patches, one pattern a class, with noise: quick to learn, quick to embed."""
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(n_classes), each)
    side = size // 4
    patterns = rng.integers(0, 256, (n_classes, 4, 4, 3)).repeat(side, 1).repeat(side, 2)
    images = np.clip(patterns[label] + rng.normal(0, noise, (len(label), size, size, 3)), 0, 255).astype(np.uint8)
    split = np.where(label < n_classes * 0.5, "train", np.where(label < n_classes * 0.65, "valid", "test"))
    table = as_table(
        {
            "kind": [f"k{c:02d}" for c in label],
            "context": [f"c{i % 3}" for i in range(len(label))],
            "dataset": np.where(label % 2, "odd", "even"),
            "split": split,
        }
    )
    digest = hashlib.sha256(images.tobytes()).hexdigest()
    card = Card("blobs", "images", (size, size, 3), ("kind",), schemes=("split",), context="context", hash=digest)
    return Collection(card, table, images)
