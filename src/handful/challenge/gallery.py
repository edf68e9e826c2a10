"""Pictures for the service's pages: sample images of the public data, figures of a leaderboard."""

from __future__ import annotations

import base64
import functools
import io
from pathlib import Path
from typing import Any

import numpy as np

from handful.challenge.rules import Line
from handful.challenge.sources import Data
from handful.challenge.spec import Challenge
from handful.errors import HandfulError
from handful.metrics.base import SHOWN


def gallery(challenge: Challenge, root: Path, state: Path, samples: int = 10) -> list[dict[str, Any]]:
    """The public data sets with some images of each; hidden data are never shown."""
    return _gallery(challenge.model_dump_json(), str(root), str(state), samples)


@functools.lru_cache(maxsize=4)
def _gallery(challenge_json: str, root: str, state: str, samples: int) -> list[dict[str, Any]]:
    challenge = Challenge.model_validate_json(challenge_json)
    try:
        part = Data(challenge, Path(root), Path(state)).collection("public", "public").whole
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
    """Scores with intervals, best on top, as inline SVG."""
    shown = tuple((line.name, line.score, line.low, line.high, line.rank is not None) for line in lines[:most])
    return _board_figure(shown) if shown else ""


@functools.lru_cache(maxsize=64)
def _board_figure(lines: tuple[tuple[str, float, float | None, float | None, bool], ...]) -> str:
    from handful.challenge.results import _BLUE, _INK, _axes, _svg

    figure, axes = _axes(7.0, 0.8 + 0.34 * len(lines))
    for i, (_, score, low, high, ranked) in enumerate(lines):
        colour = _BLUE if ranked else "#aab2bf"
        ends = [score if low is None else low, score if high is None else high]
        axes.plot(ends, [i, i], color=colour, linewidth=2.2, alpha=0.45, solid_capstyle="round")
        axes.plot(score, i, "o", color=colour, markersize=6)
    axes.set_yticks(range(len(lines)), [_plain(line[0]) for line in lines], color=_INK)
    axes.invert_yaxis()
    axes.set_xlabel(f"normalised accuracy, {SHOWN} interval over tasks")
    axes.grid(axis="x", color="#eaedf2")
    axes.set_axisbelow(True)
    return _svg(figure)


def _plain(name: str) -> str:
    """A name that matplotlib will not read as mathematics."""
    return name[:30].replace("\\", "").replace("$", "").replace("_", " ").replace("^", " ")
