"""Pictures for the service's pages: sample images of the public data, figures of a leaderboard."""

from __future__ import annotations

import base64
import functools
import io
import threading
from pathlib import Path
from typing import Any

import numpy as np

from handful.challenge.rules import Line
from handful.challenge.sources import Data
from handful.challenge.spec import Challenge
from handful.errors import HandfulError
from handful.metrics.base import SHOWN

_DRAWING = threading.Lock()


def gallery(challenge: Challenge, root: Path, state: Path, samples: int = 10) -> list[dict[str, Any]]:
    """The public data sets with some images of each; hidden data are never shown."""
    return _gallery(challenge.model_dump_json(), str(root), str(state), samples)


@functools.lru_cache(maxsize=4)
def _gallery(challenge_json: str, root: str, state: str, samples: int) -> list[dict[str, Any]]:
    challenge = Challenge.model_validate_json(challenge_json)
    try:
        part = Data(challenge, Path(root), Path(state)).collection(challenge.public, challenge.public).whole
    except HandfulError:
        return []
    of_class, names = part.datasets
    out = []
    for number, name in enumerate(names):
        classes = np.flatnonzero(of_class == number)
        picked = classes[:: max(1, len(classes) // samples)][:samples]
        rows = np.array([part.members[int(c)][0] for c in picked])
        images = [_png(image) for image in part.collection.read(rows)]
        labels = [part.class_names[int(c)].split("/")[-1] for c in picked]
        sizes = part.members.sizes[classes]
        out.append(
            {
                "name": name,
                "classes": len(classes),
                "images": int(sizes.sum()),
                "samples": list(zip(images, labels, strict=True)),
            }
        )
    return out


def _png(image: np.ndarray) -> str:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(image).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


def board_figure(lines: list[Line], most: int = 15) -> str:
    """Scores with intervals, best on top, as inline SVG; entrants without a rank have a colour of their own."""
    shown = tuple((line.name, line.score, line.low, line.high, line.rank is not None) for line in lines[:most])
    return _board_figure(shown) if shown else ""


@functools.lru_cache(maxsize=64)
def _board_figure(lines: tuple[tuple[str, float, float | None, float | None, bool], ...]) -> str:
    from handful.report.figures import side_bars

    kinds = {"ranked": True} | ({"not ranked": False} if not all(line[4] for line in lines) else {})
    groups = {
        kind: [
            (score, _half(low, high)) if ranked == yes else (np.nan, np.nan) for _, score, low, high, ranked in lines
        ]
        for kind, yes in kinds.items()
    }
    # One at a time: the service draws in several threads, and matplotlib's settings and fonts are the process's.
    with _DRAWING:
        names = [_plain(line[0]) for line in lines]
        return side_bars(names, groups, f"normalised accuracy, {SHOWN} interval over tasks")


def _half(low: float | None, high: float | None) -> float:
    return np.nan if low is None or high is None else (high - low) / 2


def _plain(name: str) -> str:
    """A name that matplotlib will not read as mathematics."""
    return name[:30].replace("\\", "").replace("$", "").replace("_", " ").replace("^", " ")
