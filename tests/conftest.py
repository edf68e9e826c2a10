"""Fixtures: real data if it is there, small collections, one thread."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import torch

from handful.data.collection import Card, Collection, as_table

torch.set_num_threads(1)

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real data beside the project."""
    if not SHARED.is_dir():
        pytest.skip("the real data (../shared/data) are not beside the project")
    return SHARED


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory):
    """Nothing a test caches reaches the user's own cache."""
    before = os.environ.get("HANDFUL_CACHE")
    os.environ["HANDFUL_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["HANDFUL_CACHE"]
    else:
        os.environ["HANDFUL_CACHE"] = before


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


@pytest.fixture(scope="session")
def patches() -> Collection:
    return blobs(n_classes=24, each=40)
