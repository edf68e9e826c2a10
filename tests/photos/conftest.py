"""Photos to classify: colour patches in files of many kinds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

NAMES = ("ash", "birch", "cedar", "fir")


def photo(kind: int, number: int, size: tuple[int, int] = (70, 60), noise: float = 50.0) -> Image.Image:
    """The number-th photo of a class: its 4 x 4 colours, noise and a little light of its own."""
    colours = np.random.default_rng(kind).integers(0, 256, (4, 4, 3)).astype(np.uint8)
    rng = np.random.default_rng([kind, number])
    pixels = np.asarray(Image.fromarray(colours).resize(size, Image.Resampling.NEAREST), dtype=np.float64)
    return Image.fromarray(
        np.clip(pixels + rng.normal(0, noise, pixels.shape) + rng.normal(0, 15), 0, 255).astype(np.uint8)
    )


def write_photos(folder: Path, each: int = 6, classes: tuple[str, ...] = NAMES, first: int = 0) -> Path:
    for kind, name in enumerate(classes):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(first, first + each):
            photo(kind, i, (50 + 7 * i, 64)).save(folder / name / f"{i:02d}.{('png', 'jpg', 'webp')[i % 3]}")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_photos(tmp_path / "photos")
