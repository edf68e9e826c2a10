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
from handful.errors import BadInput, Missing
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


def _rows(path: str | Path, head: tuple[str, ...]) -> list[list[str]]:
    file = Path(path)
    wanted = ",".join(head)
    try:
        with open(file, newline="", encoding="utf-8-sig") as stream:
            first, *rows = [[c.strip() for c in row] for row in csv.reader(stream) if row] or [[]]
    except FileNotFoundError as error:
        raise Missing(f"{file} does not exist; give rows {wanted}") from error
    except (UnicodeDecodeError, IsADirectoryError) as error:
        raise BadInput(f"{file} is not a text file of rows {wanted}") from error
    if tuple(c.lower() for c in first) != head:
        raise BadInput(f"{file} must begin with the row {wanted}, found {','.join(first)!r}")
    if not rows:
        raise BadInput(f"{file} holds no image; give rows {wanted}")
    for number, row in enumerate(rows, start=2):
        if len(row) != len(head) or not all(c.isdigit() for c in (row[0], *row[2:])):
            raise BadInput(f"{file}, row {number}: expected {wanted}, found {','.join(row)!r}")
    return rows


def read_quality(path: str | Path) -> Quality:
    """What :func:`write_quality` wrote."""
    rows = _rows(path, ("image", "class", "tested", "right"))
    numbers = np.array([int(r[0]) for r in rows])
    return Quality(numbers, np.array([r[1] for r in rows]), np.array([int(r[3]) > 0 for r in rows]))


def read_images(path: str | Path, labels: Sequence[str] | NDArray) -> NDArray[np.int64]:
    """Image numbers that :func:`write_images` wrote, checked against the labels of the features they point into."""
    rows = _rows(path, ("image", "class"))
    named = np.asarray(labels).astype(str)
    for number, (image, name) in enumerate(rows, start=2):
        if int(image) >= len(named):
            raise BadInput(f"{path}, row {number}: there is no image {image}, the features hold {len(named)}")
        if named[int(image)] != name:
            raise BadInput(
                f"{path}, row {number}: image {image} is of {named[int(image)]}, not of {name}; another file?"
            )
    return np.array([int(r[0]) for r in rows])
