"""Geometric shapes as polygons, for the part of the world that no font holds."""

from __future__ import annotations

import functools

import numpy as np

Polygons = list[np.ndarray]


def _round(radius: float, n: int = 48, cx: float = 0.0, cy: float = 0.0, stretch: float = 1.0) -> np.ndarray:
    return _star(n, radius, radius, cx, cy) * np.array([stretch, 1.0])


# Corners of a regular polygon need a sine; rounding to 1e-6 keeps the last bits of any libm out of the pixels.
def _star(points: int, outer: float, inner: float, cx: float = 0.0, cy: float = 0.0) -> np.ndarray:
    angle = np.arange(2 * points) * (np.pi / points) - np.pi / 2
    radius = np.where(np.arange(2 * points) % 2 == 0, outer, inner)
    return np.round(np.stack([cx + radius * np.cos(angle), cy + radius * np.sin(angle)], axis=1), 6)


def _regular(corners: int, turn: float = 0.0) -> np.ndarray:
    angle = np.arange(corners) * (2 * np.pi / corners) - np.pi / 2 + turn
    return np.round(np.stack([np.cos(angle), np.sin(angle)], axis=1), 6)


def _points(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64).reshape(-1, 2)


def _box(x0: float, y0: float, x1: float, y1: float) -> np.ndarray:
    return _points(x0, y0, x1, y0, x1, y1, x0, y1)


def _hole(polygon: np.ndarray) -> np.ndarray:
    return polygon[::-1]


def _curve(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.round(np.stack([x, y], axis=1), 6)


def _turned(polygons: Polygons, quarter: int) -> Polygons:
    turn = np.linalg.matrix_power(np.array([[0, -1], [1, 0]]), quarter % 4).astype(np.float64)
    return [polygon @ turn.T for polygon in polygons]


def _heart() -> Polygons:
    t = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return [_curve(16 * np.sin(t) ** 3, -y)]


def _moon() -> Polygons:
    a = np.linspace(0.6, 2 * np.pi - 0.6, 40)
    outer = np.stack([np.cos(a), np.sin(a)], axis=1)
    b = np.linspace(2 * np.pi - 0.95, 0.95, 30)
    inner = np.stack([0.42 + 0.7 * np.cos(b), 0.7 * np.sin(b)], axis=1)
    return [np.round(np.concatenate([outer, inner]), 6)]


def _spiral() -> Polygons:
    t = np.linspace(0.6, 5 * np.pi, 120)
    r = t / (5 * np.pi)
    out = np.stack([(r + 0.07) * np.cos(t), (r + 0.07) * np.sin(t)], axis=1)
    back = np.stack([(r - 0.05) * np.cos(t), (r - 0.05) * np.sin(t)], axis=1)[::-1]
    return [np.round(np.concatenate([out, back]), 6)]


def _flower(petals: int) -> Polygons:
    t = np.linspace(0, 2 * np.pi, 120, endpoint=False)
    r = 0.62 + 0.38 * np.cos(petals * t)
    return [_curve(r * np.cos(t), r * np.sin(t)), _hole(_round(0.2, 16))]


def _gear() -> Polygons:
    corners = []
    for k in range(8):
        for offset, radius in ((-0.26, 0.72), (-0.16, 1.0), (0.16, 1.0), (0.26, 0.72)):
            a = 2 * np.pi * k / 8 + offset
            corners.append((radius * np.cos(a), radius * np.sin(a)))
    return [np.round(np.array(corners), 6), _hole(_round(0.34, 24))]


def _drop() -> Polygons:
    t = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    return [_curve(np.sin(t) * np.sin(t / 2) ** 1.5 * 0.75, -np.cos(t))]


def _wedge(mouth: float) -> Polygons:
    a = np.linspace(mouth, 2 * np.pi - mouth, 50)
    return [np.round(np.concatenate([[[0.0, 0.0]], np.stack([np.cos(a), np.sin(a)], axis=1)]), 6)]


@functools.cache
def _table() -> dict[str, Polygons]:
    arrow = [_points(-1, -0.28, 0.1, -0.28, 0.1, -0.75, 1, 0, 0.1, 0.75, 0.1, 0.28, -1, 0.28)]
    chevron = [_points(-0.7, -1, 0.1, -1, 0.8, 0, 0.1, 1, -0.7, 1, 0, 0)]
    return {
        "disc": [_round(1)],
        "ring": [_round(1), _hole(_round(0.55))],
        "half disc": [np.clip(_round(1), None, [2, 0])],
        "square": [_box(-1, -1, 1, 1)],
        "frame": [_box(-1, -1, 1, 1), _hole(_box(-0.55, -0.55, 0.55, 0.55))],
        "bar": [_box(-1, -0.28, 1, 0.28)],
        "pillar": [_box(-0.28, -1, 0.28, 1)],
        "triangle": [_regular(3)],
        "fallen triangle": [-_regular(3)],
        "pentagon": [_regular(5)],
        "diamond": [_points(0, -1, 0.7, 0, 0, 1, -0.7, 0)],
        "star": [_star(5, 1, 0.4)],
        "four-point star": [_star(4, 1, 0.32)],
        "eight-point star": [_star(8, 1, 0.62)],
        "plus": [_box(-1, -0.3, 1, 0.3), _box(-0.3, -1, 0.3, 1)],
        "saltire": [_points(-1, -0.7, -0.7, -1, 1, 0.7, 0.7, 1), _points(0.7, -1, 1, -0.7, -0.7, 1, -1, 0.7)],
        "arrow right": arrow,
        "arrow down": _turned(arrow, 1),
        "arrow left": _turned(arrow, 2),
        "arrow up": _turned(arrow, 3),
        "chevron right": chevron,
        "chevron left": _turned(chevron, 2),
        "heart": _heart(),
        "moon": _moon(),
        "spiral": _spiral(),
        "daisy": _flower(6),
        "clover": _flower(3),
        "gear": _gear(),
        "drop": _drop(),
        "pie": _wedge(0.7),
        "house": [
            _points(0, -1, 1, -0.1, 0.75, -0.1, 0.75, 0.9, -0.75, 0.9, -0.75, -0.1, -1, -0.1),
            _hole(_box(-0.2, 0.25, 0.2, 0.9)),
        ],
        "bolt": [_points(0.15, -1, -0.6, 0.15, -0.1, 0.15, -0.3, 1, 0.6, -0.25, 0.1, -0.25, 0.5, -1)],
        "stairs": [_points(-1, 1, -1, 0.5, -0.5, 0.5, -0.5, 0, 0, 0, 0, -0.5, 0.5, -0.5, 0.5, -1, 1, -1, 1, 1)],
        "hourglass": [_points(-0.75, -1, 0.75, -1, 0.1, 0, 0.75, 1, -0.75, 1, -0.1, 0)],
        "bow tie": [_points(-1, -0.65, 0, -0.12, 1, -0.65, 1, 0.65, 0, 0.12, -1, 0.65)],
        "two bars": [_box(-1, -0.7, 1, -0.22), _box(-1, 0.22, 1, 0.7)],
        "three dots": [_round(0.36, 20, 0, -0.62), _round(0.36, 20, -0.62, 0.5), _round(0.36, 20, 0.62, 0.5)],
        "four squares": [_box(a, b, a + 0.8, b + 0.8) for a in (-1, 0.2) for b in (-1, 0.2)],
        "target": [_round(1), _hole(_round(0.72)), _round(0.4, 24)],
        "tree": [
            _points(
                0,
                -1,
                0.6,
                -0.25,
                0.3,
                -0.25,
                0.8,
                0.5,
                0.15,
                0.5,
                0.15,
                1,
                -0.15,
                1,
                -0.15,
                0.5,
                -0.8,
                0.5,
                -0.3,
                -0.25,
                -0.6,
                -0.25,
            )
        ],
    }


def names() -> list[str]:
    """Names of the shapes."""
    return list(_table())


def shape(name: str) -> Polygons:
    """Closed polygons of a shape, y down; holes run the other way round."""
    return _table()[name]
