"""Borders, forty and more: line styles, frames and trims around the edge of an image 32 units wide.

A border is ink (0 nothing, 1 its first colour, 2 its second) as a function of an edge frame: ``d`` the distance to the
nearest edge, ``t`` the way along that edge from the middle of the side, ``x, y`` the place measured from the centre.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from handful.data.world.noise import Array, wave


@dataclass(frozen=True)
class Canvas:
    """Coordinates of the samples of an image."""

    d: Array
    t: Array
    x: Array
    y: Array
    top: Array
    """Whether the nearest edge is the top or the bottom one."""


Ink = Callable[[Canvas], Array]
BLACK, WHITE, GOLD, RED = (20, 20, 24), (252, 252, 252), (240, 190, 40), (214, 30, 40)
BLUE, GREEN, VIOLET, BROWN = (30, 70, 200), (20, 130, 60), (130, 50, 180), (110, 66, 30)
PINK, CYAN, ORANGE, GREY = (250, 130, 190), (60, 210, 230), (250, 130, 20), (130, 134, 140)


def _mod(t: Array, period: float) -> Array:
    return t - period * np.floor(t / period)


def _line(f: Canvas, low: float, high: float) -> Array:
    return ((f.d >= low) & (f.d < high)) * 1.0


def _two(first: Array, second: Array) -> Array:
    """The second ink where it is, else the first."""
    return np.where(second > 0, 2.0, (first > 0) * 1.0)


def _solid(width: float) -> Ink:
    return lambda f: _line(f, 0, width)


def _double(f: Canvas) -> Array:
    return _two(_line(f, 0, 4), _line(f, 1.3, 2.7))


def _triple(f: Canvas) -> Array:
    return _two(_line(f, 0, 4.2), _line(f, 0.9, 1.7) + _line(f, 2.6, 3.4))


def _inset(f: Canvas) -> Array:
    return _line(f, 2.2, 3.8)


def _dashes(period: float, share: float) -> Ink:
    return lambda f: _two(_line(f, 0, 3.2), _line(f, 0.8, 2.4) * (_mod(f.t, period) < period * share))


def _gaps(period: float) -> Ink:
    return lambda f: _line(f, 0, 3) * (_mod(f.t, period) < period / 2)


def _dash_dot(f: Canvas) -> Array:
    u = _mod(f.t, 8)
    return _two(_line(f, 0, 3.4), _line(f, 0.9, 2.5) * ((u < 3.8) | ((u > 5.3) & (u < 6.6))))


def _beads(period: float, radius: float, band: float) -> Ink:
    def ink(f: Canvas) -> Array:
        u, v = _mod(f.t, period) - period / 2, f.d - max(radius, band / 2)
        return _two(_line(f, 0, band), u * u + v * v < radius * radius)

    return ink


def _zigzag(f: Canvas) -> Array:
    height = 1.1 + np.abs(_mod(f.t, 4) - 2) * 1.0
    return _two(_line(f, 0, 4.2), np.abs(f.d - height) < 0.75)


def _teeth(f: Canvas) -> Array:
    return (f.d < 4 - np.abs(_mod(f.t, 4) - 2) * 1.7) * 1.0


def _ripple(f: Canvas) -> Array:
    return _two(_line(f, 0, 4.2), np.abs(f.d - 2.1 - 0.95 * wave(f.t / 8)) < 0.8)


def _wavy_edge(f: Canvas) -> Array:
    return (f.d < 2.4 + 1.2 * wave(f.t / 5.4)) * 1.0


def _checks(f: Canvas) -> Array:
    return _line(f, 0, 4) * (1 + (np.floor(f.t / 2) + np.floor(f.d / 2)) % 2)


def _hazard(f: Canvas) -> Array:
    return _line(f, 0, 4) * (1 + np.floor((f.x + f.y) / 2.6) % 2)


def _rope(f: Canvas) -> Array:
    return _line(f, 0, 3.4) * (1 + (_mod(f.t + 1.2 * f.d, 3.2) < 1.2))


def _scallops(f: Canvas) -> Array:
    u = _mod(f.t, 5.4) - 2.7
    return (u * u + f.d * f.d * 0.62 < 7.3) * 1.0


def _brackets(f: Canvas) -> Array:
    return _line(f, 1, 3) * (np.minimum(np.abs(f.x), np.abs(f.y)) > 7)


def _sides(f: Canvas) -> Array:
    return _line(f, 0, 3) * (np.minimum(np.abs(f.x), np.abs(f.y)) < 8)


def _corner_discs(f: Canvas) -> Array:
    u, v = 16 - np.abs(f.x), 16 - np.abs(f.y)
    return _two(_line(f, 0, 1.2), (u - 3) * (u - 3) + (v - 3) * (v - 3) < 8.5)


def _corner_triangles(f: Canvas) -> Array:
    return (np.abs(f.x) + np.abs(f.y) > 23.5) * 1.0


def _corner_squares(f: Canvas) -> Array:
    return _two(_line(f, 1.6, 2.8), np.minimum(np.abs(f.x), np.abs(f.y)) > 11.2)


def _round_frame(f: Canvas) -> Array:
    u, v = np.maximum(np.abs(f.x) - 6, 0), np.maximum(np.abs(f.y) - 6, 0)
    return (u * u + v * v > 8.2 * 8.2) * 1.0


def _oval(f: Canvas) -> Array:
    r = f.x * f.x + f.y * f.y
    return _two(r > 15.2 * 15.2, (r > 15.2 * 15.2) & (r < 16.6 * 16.6))


def _top_bottom(f: Canvas) -> Array:
    return (np.abs(f.y) > 12.4) * 1.0


def _left_right(f: Canvas) -> Array:
    return (np.abs(f.x) > 12.4) * 1.0


def _film(f: Canvas) -> Array:
    hole = (np.abs(np.abs(f.y) - 13.9) < 1.1) * (_mod(f.x, 4) < 2.2)
    return _two(np.abs(f.y) > 11.8, hole)


def _stamp(f: Canvas) -> Array:
    u = _mod(f.t, 4) - 2
    return _two(_line(f, 0, 3.6), u * u + f.d * f.d < 2.4)


def _stitches(f: Canvas) -> Array:
    return _line(f, 1.4, 2.8) * (_mod(f.t, 5) < 3)


def _crosses(f: Canvas) -> Array:
    u, v = np.abs(_mod(f.t, 5) - 2.5), np.abs(f.d - 2.2)
    return _two(_line(f, 0, 4.4), (np.abs(u - v) < 0.75) & (u < 1.9))


def _diamonds(f: Canvas) -> Array:
    return _two(_line(f, 0, 4), np.abs(_mod(f.t, 5) - 2.5) + np.abs(f.d - 2) < 1.9)


def _ladder(f: Canvas) -> Array:
    return ((_line(f, 0, 0.9) + _line(f, 3.2, 4.1) > 0) | ((f.d < 4.1) & (_mod(f.t, 3.4) < 1.0))) * 1.0


def _meander(f: Canvas) -> Array:
    u = _mod(f.t, 8)
    key = (
        ((f.d < 1.2) & (u < 5))
        | ((f.d < 4.6) & (u < 1.2))
        | ((f.d > 3.4) & (u < 8))
        | ((f.d > 1.4) & (np.abs(u - 6.6) < 0.6))
    )
    return _two(_line(f, 0, 4.6), key & (f.d < 4.6))


def _ticks(f: Canvas) -> Array:
    return (((f.d < 4) & (_mod(f.t, 3) < 1.1)) | (f.d < 0.8)) * 1.0


def _hatch(f: Canvas) -> Array:
    return _line(f, 0, 4) * (1 + (_mod(f.x - f.y, 2.8) < 1.1))


def _bevel(f: Canvas) -> Array:
    return _line(f, 0, 3.6) * (1 + (f.x + f.y > 0))


def _halves(f: Canvas) -> Array:
    return _line(f, 0, 3.6) * (1 + f.top)


def _quarters(f: Canvas) -> Array:
    return _line(f, 0, 3.6) * (1 + (f.x * f.y > 0))


def _notches(f: Canvas) -> Array:
    return (f.d < np.where(_mod(f.t, 6) < 3, 4.0, 1.6)) * 1.0


def _ticket(f: Canvas) -> Array:
    u, v = 16 - np.abs(f.x), 16 - np.abs(f.y)
    return ((u * u + v * v < 42) | (f.d < 1.6)) * 1.0


def _underline(f: Canvas) -> Array:
    return (f.y > 11.6) * 1.0


def _margin(f: Canvas) -> Array:
    return _two(f.x < -11.4, (f.x < -11.4) & (f.x > -12.9))


def _tape(f: Canvas) -> Array:
    u, v = np.abs(f.x) - 13.2, np.abs(f.y) - 13.2
    return ((np.abs(u + v) < 2.6) & (np.abs(np.abs(f.x) - np.abs(f.y)) < 8)) * 1.0


def _barbed(f: Canvas) -> Array:
    u = np.abs(_mod(f.t, 6) - 3)
    return ((np.abs(f.d - 2) < 0.6) | ((np.abs(np.abs(f.d - 2) - u) < 0.6) & (u < 1.9))) * 1.0


def _bricks(f: Canvas) -> Array:
    row = np.floor(f.d / 2.1)
    joint = (_mod(f.t + 2.6 * (row % 2), 5.2) < 0.9) | (_mod(f.d, 2.1) < 0.6)
    return _two(_line(f, 0, 4.2), joint & (f.d < 4.2))


BORDERS: dict[str, tuple[Ink, tuple[int, int, int], tuple[int, int, int]]] = {
    "black line": (_solid(2.4), BLACK, BLACK),
    "white band": (_solid(4.2), WHITE, WHITE),
    "double line": (_double, BLACK, WHITE),
    "triple line": (_triple, WHITE, BLUE),
    "inset line": (_inset, RED, RED),
    "dashes": (_dashes(5.4, 0.55), WHITE, BLACK),
    "long dashes": (_dashes(10.8, 0.7), BLACK, GOLD),
    "gaps": (_gaps(5.4), GREEN, GREEN),
    "dash dot": (_dash_dot, WHITE, RED),
    "dots": (_beads(3.6, 1.1, 3.2), WHITE, BLACK),
    "beads": (_beads(4.0, 1.8, 0.0), GOLD, GOLD),
    "lights": (_beads(6.4, 1.4, 3.8), BLACK, GOLD),
    "zigzag": (_zigzag, WHITE, VIOLET),
    "teeth": (_teeth, BLACK, BLACK),
    "ripple": (_ripple, BLUE, WHITE),
    "wavy edge": (_wavy_edge, CYAN, CYAN),
    "checks": (_checks, BLACK, WHITE),
    "hazard stripes": (_hazard, BLACK, GOLD),
    "rope": (_rope, GOLD, BROWN),
    "scallops": (_scallops, PINK, PINK),
    "brackets": (_brackets, BLACK, BLACK),
    "broken corners": (_sides, VIOLET, VIOLET),
    "corner discs": (_corner_discs, WHITE, RED),
    "corner triangles": (_corner_triangles, GREEN, GREEN),
    "corner squares": (_corner_squares, BLACK, ORANGE),
    "round frame": (_round_frame, GREY, GREY),
    "oval": (_oval, BROWN, GOLD),
    "top and bottom": (_top_bottom, RED, RED),
    "left and right": (_left_right, BLUE, BLUE),
    "film": (_film, BLACK, WHITE),
    "stamp": (_stamp, WHITE, GREY),
    "stitches": (_stitches, WHITE, WHITE),
    "crosses": (_crosses, RED, WHITE),
    "diamonds": (_diamonds, BLUE, GOLD),
    "ladder": (_ladder, BROWN, BROWN),
    "meander": (_meander, WHITE, BLACK),
    "ticks": (_ticks, ORANGE, ORANGE),
    "hatching": (_hatch, WHITE, GREEN),
    "bevel": (_bevel, WHITE, GREY),
    "two colours": (_halves, GREEN, RED),
    "quarters": (_quarters, VIOLET, GOLD),
    "notches": (_notches, BROWN, BROWN),
    "ticket": (_ticket, ORANGE, ORANGE),
    "underline": (_underline, GOLD, GOLD),
    "margin": (_margin, WHITE, RED),
    "tape": (_tape, CYAN, CYAN),
    "barbed wire": (_barbed, BLACK, BLACK),
    "brick frame": (_bricks, RED, GREY),
}


@functools.lru_cache(maxsize=256)
def picture(border: str, side: int) -> np.ndarray:
    """A border as premultiplied colour and opacity, three samples a pixel each way: uint8 (side, side, 4)."""
    if border == "none":
        return np.zeros((side, side, 4), dtype=np.uint8)
    ink, first, second = BORDERS[border]
    n = 3
    at = (np.arange(n * side) + 0.5) * (32.0 / (n * side)) - 16.0
    x, y = np.meshgrid(at, at)
    top = np.abs(y) >= np.abs(x)
    along = np.choose(top, [y, x])
    level = ink(Canvas(d=16.0 - np.maximum(np.abs(x), np.abs(y)), t=along, x=x, y=y, top=top * 1.0))
    rgba = np.zeros((*level.shape, 4))
    for value, colour in ((1.0, first), (2.0, second)):
        rgba = np.where((level == value)[..., None], np.array([*colour, 255], dtype=np.float64), rgba)
    # Whole numbers below 2**53: their sum is exact in any order.
    total = rgba.reshape(side, n, side, n, 4).sum(axis=(1, 3))
    return np.floor(total / (n * n) + 0.5).astype(np.uint8)
