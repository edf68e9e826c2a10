"""Building blocks of procedural pictures: lattice noise, cells, waves and palettes, in plain arithmetic.

Only operations that IEEE 754 rounds exactly are used (no sine, no sums whose order a library may choose), so that a
picture is the same to the bit on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray
Colour = Sequence[float]


def hash32(ix: Array, iy: Array, seed: int) -> Array:
    """32 random bits for every pair of integers: multiply, xor and shift, as in the integer hashes of C. Wellons."""
    # By way of int64: what a negative float becomes as an unsigned number depends on the processor.
    ux, uy = ix.astype(np.int64).astype(np.uint32), iy.astype(np.int64).astype(np.uint32)
    with np.errstate(over="ignore"):
        h = ux * np.uint32(0x8DA6B343) + uy * np.uint32(0xD8163841)
        h = h + np.uint32((seed * 0xCB1AB31F) & 0xFFFFFFFF)
        h = (h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D)
        h = (h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B)
        return h ^ (h >> np.uint32(16))


def hashed(ix: Array, iy: Array, seed: int) -> Array:
    """A uniform value in [0, 1) for every pair of integers."""
    return hash32(ix, iy, seed).astype(np.float64) * (1.0 / 4294967296.0)


def smooth(t: Array, low: float = 0.0, high: float = 1.0) -> Array:
    """0 below ``low``, 1 above ``high``, a cubic between."""
    u = np.clip((t - low) / (high - low), 0.0, 1.0)
    return u * u * (3.0 - 2.0 * u)


def noise(x: Array, y: Array, seed: int) -> Array:
    """Value noise in [0, 1]: random values at whole coordinates, smooth between."""
    fx, fy = np.floor(x), np.floor(y)
    ix, iy = fx.astype(np.int64), fy.astype(np.int64)
    u, v = smooth(x - fx), smooth(y - fy)
    a, b = hashed(ix, iy, seed), hashed(ix + 1, iy, seed)
    c, d = hashed(ix, iy + 1, seed), hashed(ix + 1, iy + 1, seed)
    top, bottom = a + (b - a) * u, c + (d - c) * u
    return top + (bottom - top) * v


def clouds(x: Array, y: Array, seed: int, octaves: int = 3) -> Array:
    """Noise over several octaves, in [0, 1]."""
    total, weight, scale = noise(x, y, seed), 1.0, 1.0
    sum_of_weights = 1.0
    for octave in range(1, octaves):
        weight, scale = weight * 0.5, scale * 2.0
        total = total + weight * noise(x * scale, y * scale, seed + 7 * octave)
        sum_of_weights += weight
    return total / sum_of_weights


def wave(t: Array) -> Array:
    """A smooth wave of period 1 and range [-1, 1] (parabolas in place of a sine)."""
    u = t - np.floor(t)
    v = np.where(u < 0.5, u, u - 0.5)
    arc = 16.0 * v * (0.5 - v)
    return np.where(u < 0.5, arc, -arc)


def saw(t: Array) -> Array:
    """A triangle wave of period 1 and range [0, 1]."""
    u = t - np.floor(t)
    return np.where(u < 0.5, 2.0 * u, 2.0 - 2.0 * u)


def cells(x: Array, y: Array, seed: int, jitter: float = 0.9) -> tuple[Array, Array, Array]:
    """Distances to the nearest two of scattered points (one a unit cell), and a random value of the nearest."""
    fx, fy = np.floor(x), np.floor(y)
    first = np.full(x.shape, 9.0)
    second = np.full(x.shape, 9.0)
    value = np.zeros(x.shape)
    for dx in (-1, 0, 1):
        for dy in (-1, 0, 1):
            ix, iy = (fx + dx).astype(np.int64), (fy + dy).astype(np.int64)
            px = ix + 0.5 + jitter * (hashed(ix, iy, seed) - 0.5)
            py = iy + 0.5 + jitter * (hashed(ix, iy, seed + 1) - 0.5)
            distance = np.sqrt((x - px) * (x - px) + (y - py) * (y - py))
            closer = distance < first
            second = np.where(closer, first, np.minimum(second, distance))
            value = np.where(closer, hashed(ix, iy, seed + 2), value)
            first = np.where(closer, distance, first)
    return first, second, value


def between(t: Array, *colours: Colour) -> Array:
    """Interpolate along a palette: t in [0, 1] to (..., 3) in 0..255."""
    stops = np.array(colours, dtype=np.float64)
    at = np.clip(t, 0.0, 1.0) * (len(stops) - 1)
    low = np.minimum(np.floor(at).astype(np.int64), len(stops) - 2)
    part = (at - low)[..., None]
    return stops[low] + (stops[low + 1] - stops[low]) * part


def over(under: Array, colour: Colour | Array, alpha: Array) -> Array:
    """Lay a colour over a picture."""
    a = np.clip(alpha, 0.0, 1.0)[..., None]
    return under + (np.asarray(colour, dtype=np.float64) - under) * a


def shaded(picture: Array, light: Array) -> Array:
    """Multiply brightness."""
    return picture * light[..., None]
