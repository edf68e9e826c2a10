"""Files of the image selection: every image with how often it was tested and right, and the images of a built split."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from handful.audits.zero_shot.visual import Selection
from handful.data.importers.features import image_rows
from handful.files import write_atomically


@dataclass(frozen=True, eq=False)
class Quality:
    """Image numbers of a features file, their classes, and which a supervised probe named rightly."""

    images: NDArray[np.int64]
    classes: NDArray[np.str_]
    good: NDArray[np.bool_]


def write_quality(path: str | Path, labels: Sequence[str] | NDArray, found: Selection) -> Path:
    """Rows ``image,class,tested,right``, whole or not at all."""
    rows = zip(
        range(len(labels)), np.asarray(labels).tolist(), found.tested.tolist(), found.right.tolist(), strict=True
    )
    return _write(path, ("image", "class", "tested", "right"), rows)


def write_images(path: str | Path, images: NDArray[np.int64], classes: NDArray[np.str_]) -> Path:
    """Rows ``image,class``, whole or not at all."""
    return _write(path, ("image", "class"), zip(images.tolist(), classes.tolist(), strict=True))


def _write(path: str | Path, head: Sequence[str], rows: object) -> Path:
    target, text = Path(path), io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(head)
    out.writerows(rows)  # type: ignore[arg-type]
    write_atomically(target, lambda temporary: temporary.write_text(text.getvalue(), encoding="utf-8"))
    return target


def read_quality(path: str | Path) -> Quality:
    """What :func:`write_quality` wrote."""
    rows = image_rows(path, ("image", "class", "tested", "right"))
    numbers = np.array([int(r[0]) for r in rows])
    return Quality(numbers, np.array([r[1] for r in rows]), np.array([int(r[3]) > 0 for r in rows]))
