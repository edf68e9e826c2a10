"""Glyphs as signed distance fields, from font outlines and from formulas.

One field of 64x64 serves every size, slant, stroke weight and outline, so nothing is rasterised per image. Outlines are
read in the font's own integer units, without hinting, so that the fields do not depend on the FreeType at hand.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
from scipy.ndimage import distance_transform_edt

from handful.data.world.shapes import shape

CELL = 64
"""Side of a field in samples."""
SPAN = 1.5
"""Side of a field in glyph units: the glyph's longer side is 1, centred, and a quarter is left around it."""
REACH = 0.25
"""Distances are clipped to this many glyph units."""
_FINE = 2 * CELL

_NO_SCALE = 1
_STEPS = 6


@functools.cache
def _font():
    import matplotlib
    from matplotlib import ft2font

    font = ft2font.FT2Font(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"))
    flags = getattr(ft2font, "LoadFlags", int)(_NO_SCALE)
    return font, flags


def covers(character: str) -> bool:
    """Whether the font has a glyph for this character."""
    return ord(character) in _font()[0].get_charmap()


def outline(character: str) -> list[np.ndarray]:
    """Closed polygons (n, 2) of a character, y down, in the font's units."""
    font, flags = _font()
    font.load_char(ord(character), flags=flags)
    points, codes = font.get_path()
    polygons: list[np.ndarray] = []
    current: list[np.ndarray] = []
    i = 0
    while i < len(codes):
        code = int(codes[i])
        if code == 1:
            if len(current) > 2:
                polygons.append(np.array(current))
            current = [points[i]]
            i += 1
        elif code == 3:
            start, control, end = current[-1], points[i], points[i + 1]
            for t in np.arange(1, _STEPS + 1) / _STEPS:
                current.append((1 - t) * (1 - t) * start + 2 * t * (1 - t) * control + t * t * end)
            i += 2
        elif code == 2:
            current.append(points[i])
            i += 1
        else:
            i += 1
    if len(current) > 2:
        polygons.append(np.array(current))
    return [polygon * np.array([1.0, -1.0]) for polygon in polygons]


def fill(polygons: list[np.ndarray], side: int) -> np.ndarray:
    """Non-zero winding fill of polygons in [0, 1] x [0, 1], sampled at pixel centres: bool (side, side)."""
    edges = np.concatenate([np.concatenate([p, np.roll(p, -1, axis=0)], axis=1) for p in polygons]) * side
    x0, y0, x1, y1 = edges.T
    rows = np.arange(side)[:, None] + 0.5
    crosses = (y0 <= rows) != (y1 <= rows)
    row, edge = np.nonzero(crosses)
    height = y1[edge] - y0[edge]
    x = x0[edge] + (rows[row, 0] - y0[edge]) * (x1[edge] - x0[edge]) / height
    column = np.clip(np.ceil(x - 0.5), 0, side).astype(np.int64)
    turns = np.zeros((side, side + 1), dtype=np.int64)
    np.add.at(turns, (row, column), np.where(height > 0, 1, -1))
    return np.cumsum(turns, axis=1)[:, :side] != 0


def centred(polygons: list[np.ndarray]) -> list[np.ndarray]:
    """Scale polygons so that the longer side of their box is 1 and centre them in a field of side SPAN, as [0, 1]."""
    every = np.concatenate(polygons)
    low, high = every.min(axis=0), every.max(axis=0)
    scale = 1.0 / (high - low).max()
    return [((polygon - (low + high) / 2) * scale + SPAN / 2) / SPAN for polygon in polygons]


@functools.lru_cache(maxsize=4096)
def mask(glyph: str, side: int = _FINE) -> np.ndarray:
    """Black and white picture of a glyph or shape in its cell."""
    polygons = outline(glyph) if len(glyph) == 1 else shape(glyph)
    return fill(centred(polygons), side)


@functools.lru_cache(maxsize=4096)
def field(glyph: str) -> np.ndarray:
    """Signed distance to a glyph's contour in glyph units, negative inside: float32 (CELL, CELL).

    ``glyph`` is one character, or the name of a shape.
    """
    inside = mask(glyph)
    signed = distance_transform_edt(~inside) - distance_transform_edt(inside)
    # The contour runs half a sample before the first sample outside; the mean of each 2x2 keeps it there.
    mean = (signed[0::2, 0::2] + signed[1::2, 0::2] + signed[0::2, 1::2] + signed[1::2, 1::2]) / 4
    return np.clip(mean * (SPAN / _FINE), -REACH, REACH).astype(np.float32)
