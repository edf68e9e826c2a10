"""Fixtures: real data if it is there, small collections, one thread."""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

from handful.data.collection import Collection
from patterns import blobs

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


@pytest.fixture(scope="session")
def patches() -> Collection:
    return blobs(n_classes=24, each=40)
