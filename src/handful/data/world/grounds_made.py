"""Grounds that people make: masonry, cloth, paper, metal."""

from __future__ import annotations

import numpy as np

from handful.data.world.noise import Array, between, cells, clouds, hashed, noise, over, saw, shaded, smooth


def brick(x: Array, y: Array, width: float = 10, height: float = 5, gap: float = 0.9, seed: int = 11,
           dark=(120, 34, 24), light=(198, 88, 58), mortar=(206, 196, 182)) -> Array:  # fmt: skip
    row = np.floor(y / height)
    u = x / width + 0.5 * (row - 2 * np.floor(row / 2))
    column = np.floor(u)
    edge = np.minimum(
        np.minimum(u - column, 1 - (u - column)) * width, np.minimum(y / height - row, 1 - y / height + row) * height
    )
    face = between(0.7 * hashed(column, row, seed) + 0.3 * noise(x / 1.2, y / 1.2, seed + 1), dark, light)
    return over(face, mortar, 1 - smooth(edge, gap * 0.35, gap))


def blocks(x: Array, y: Array) -> Array:
    return brick(x, y, 16, 9, 1.0, 13, (126, 126, 122), (176, 176, 170), (74, 74, 74))


def planks(x: Array, y: Array) -> Array:
    row = np.floor(y / 8)
    grain = noise(x / 9 + 40 * hashed(row, row, 21), 3 * y / 2.2 + 2 * noise(x / 8, y / 6, 22), 23)
    face = shaded(between(grain, (122, 74, 34), (196, 136, 74)), 0.8 + 0.3 * hashed(row, row, 24))
    return over(face, (50, 28, 12), 1 - smooth(np.minimum(y - 8 * row, 8 * row + 8 - y), 0.2, 0.8))


def cobbles(x: Array, y: Array) -> Array:
    d1, d2, v = cells(x / 8, y / 8, 30, 0.6)
    return shaded(
        between(v, (112, 110, 118), (176, 168, 160)), (0.25 + 0.8 * smooth(d2 - d1, 0.05, 0.4)) * (1.15 - 0.4 * d1)
    )


def tiles(x: Array, y: Array) -> Array:
    ix, iy = np.floor(x / 8), np.floor(y / 8)
    edge = np.minimum(np.minimum(x - 8 * ix, 8 * ix + 8 - x), np.minimum(y - 8 * iy, 8 * iy + 8 - y))
    face = between(hashed(ix, iy, 63), (120, 190, 196), (188, 228, 226))
    return over(face, (250, 250, 246), 1 - smooth(edge, 0.4, 0.9))


def checkers(x: Array, y: Array) -> Array:
    odd = (np.floor(x / 6) + np.floor(y / 6)) % 2
    return between(0.86 * odd + 0.14 * clouds(x / 5, y / 5, 64), (30, 30, 34), (236, 232, 222))


def weave(x: Array, y: Array, seed: int, dark, light, step: float = 2.0) -> Array:
    over_under = (np.floor(x / step) + np.floor(y / step)) % 2
    bulge = np.where(over_under > 0, saw(y / step), saw(x / step))
    return shaded(between(0.55 * over_under + 0.45 * noise(x / 6, y / 6, seed), dark, light), 0.7 + 0.35 * bulge)


def linen(x: Array, y: Array) -> Array:
    return weave(x, y, 65, (196, 178, 146), (236, 224, 200))


def denim(x: Array, y: Array) -> Array:
    twill = saw((x + y) / 2.4)
    return shaded(
        between(0.6 * twill + 0.4 * clouds(x / 10, y / 10, 66), (28, 44, 92), (112, 140, 190)),
        0.8 + 0.3 * noise(x * 1.5, y * 1.5, 67),
    )


def tartan(x: Array, y: Array) -> Array:
    def band(t: Array) -> Array:
        u = t / 16 - np.floor(t / 16)
        return np.where(u < 0.42, 0.0, np.where(u < 0.5, 1.0, np.where(u < 0.88, 0.5, 0.85)))

    warp = between(band(x), (150, 16, 26), (18, 58, 36), (244, 210, 90))
    weft = between(band(y), (150, 16, 26), (18, 58, 36), (244, 210, 90))
    return over(warp, weft, 0.35 + 0.3 * (((np.floor(x) + np.floor(y)) % 4) < 2))


def awning(x: Array, y: Array) -> Array:
    return shaded(
        between((np.floor(x / 5.5) % 2), (206, 38, 44), (250, 244, 234)), 0.9 + 0.12 * clouds(x / 7, y / 7, 68)
    )


def polka(x: Array, y: Array) -> Array:
    row = np.floor(y / 5)
    u = x / 8 + 0.5 * (row % 2)
    dx, dy = 8 * (u - np.floor(u) - 0.5), y - 5 * row - 2.5
    base = np.zeros((*x.shape, 3)) + np.array([238.0, 132, 168])
    return over(base, (255, 250, 246), 1 - smooth(np.sqrt(dx * dx + dy * dy), 1.5, 2.1))


def knit(x: Array, y: Array) -> Array:
    u = x / 5 - np.floor(x / 5)
    v = y / 4 + np.where(u < 0.5, u, 1 - u) * 1.6
    stripe = np.floor(y / 16) % 2
    return shaded(
        between(stripe, (62, 96, 140), (226, 218, 202)), 0.45 + 0.6 * saw(v) * smooth(np.abs(u - 0.5), 0.0, 0.12) + 0.1
    )


def rust(x: Array, y: Array) -> Array:
    base = between(clouds(x / 8, y / 8, 73, 4), (74, 40, 26), (160, 78, 34), (206, 116, 60))
    return over(base, (112, 128, 132), smooth(clouds(x / 11, y / 11, 74), 0.58, 0.66))


def steel(x: Array, y: Array) -> Array:
    return shaded(
        between(noise(x / 26, y / 0.55, 75), (132, 140, 150), (206, 212, 220)), 0.82 + 0.24 * saw(x / 48 + y / 200)
    )


def asphalt(x: Array, y: Array) -> Array:
    base = between(hashed(np.floor(x), np.floor(y), 76), (40, 40, 44), (86, 86, 90))
    return over(base, (240, 206, 60), ((x % 48) < 4) * ((y % 20) < 12) * 0.9)


def cardboard(x: Array, y: Array) -> Array:
    return shaded(between(noise(x / 3, y / 12, 77), (176, 130, 80), (208, 164, 112)), 0.78 + 0.3 * saw(x / 3.2))


def newspaper(x: Array, y: Array) -> Array:
    line, column = np.floor(y / 3), np.floor(x / 22)
    ink = (hashed(np.floor(x / 0.9), line, 78) > 0.28) * (hashed(np.floor(x / 3.4), line, 79) > 0.16)
    inside = ((y - 3 * line) < 1.7) * ((x - 22 * column) < 19.5)
    return over(np.zeros((*x.shape, 3)) + np.array([232.0, 228, 214]), (60, 60, 62), 0.85 * ink * inside)


def circuit(x: Array, y: Array) -> Array:
    ix, iy = np.floor(x / 6), np.floor(y / 6)
    dx, dy = x - 6 * ix - 3, y - 6 * iy - 3
    h = hashed(ix, iy, 80)
    trace = np.where(h < 0.4, np.abs(dx), np.where(h < 0.8, np.abs(dy), np.minimum(np.abs(dx), np.abs(dy))))
    pad = np.sqrt(dx * dx + dy * dy)
    base = over(np.zeros((*x.shape, 3)) + np.array([10.0, 74, 48]), (70, 168, 96), 1 - smooth(trace, 0.4, 0.9))
    return over(base, (226, 196, 96), (1 - smooth(pad, 1.2, 1.8)) * (h > 0.62))


def honeycomb(x: Array, y: Array) -> Array:
    width, height = 7.0, 6.0625
    best, second = np.full(x.shape, 99.0), np.full(x.shape, 99.0)
    value = np.zeros(x.shape)
    for dy in (-1, 0, 1):
        row = np.floor(y / height) + dy
        for dx in (-1, 0, 1):
            column = np.floor(x / width - 0.5 * (row % 2)) + dx
            cx, cy = (column + 0.5 + 0.5 * (row % 2)) * width, (row + 0.5) * height
            d = (x - cx) * (x - cx) + (y - cy) * (y - cy)
            closer = d < best
            second = np.where(closer, best, np.minimum(second, d))
            value = np.where(closer, hashed(column, row, 86), value)
            best = np.where(closer, d, best)
    edge = (second - best) / (2 * width)
    return over(between(value, (206, 132, 14), (250, 200, 60)), (110, 60, 8), 1 - smooth(edge, 0.3, 0.9))


def rows(x: Array, y: Array, width: float, height: float) -> tuple[Array, Array, Array, Array]:
    """Overlapping rounded rows (scales, shingles): place in the scale, its column and row; lower rows lie on top."""
    row = np.floor(y / height)
    u = x / width + 0.5 * (row % 2)
    return u - np.floor(u) - 0.5, y / height - row, np.floor(u), row


def shingles(x: Array, y: Array) -> Array:
    du, dv, column, row = rows(x, y, 6, 5)
    edge = smooth(0.5 - np.abs(du), 0.02, 0.1)
    return shaded(between(hashed(column, row, 88), (92, 52, 52), (164, 98, 88)), (0.4 + 0.6 * edge) * (0.5 + 0.55 * dv))


def fence(x: Array, y: Array) -> Array:
    base = between(clouds(x / 9, y / 9, 89), (84, 112, 76), (142, 162, 116))
    wire = np.minimum(saw((x + y) / 9), saw((x - y) / 9))
    return over(base, (226, 230, 232), 1 - smooth(wire, 0.1, 0.24))


def camouflage(x: Array, y: Array) -> Array:
    a, b = clouds(x / 9, y / 7, 90), clouds(x / 8, y / 8, 91)
    base = np.where((a > 0.52)[..., None], np.array([74.0, 84, 44]), np.array([160.0, 148, 104]))
    return np.where(((b > 0.57) & (a < 0.62))[..., None], np.array([60.0, 42, 28]), base)


def confetti(x: Array, y: Array) -> Array:
    picture = np.zeros((*x.shape, 3)) + np.array([250.0, 250, 252])
    palette = ((240, 60, 70), (60, 150, 240), (250, 200, 40), (70, 190, 100), (170, 90, 220))
    d1, _, v = cells(x / 4.5, y / 4.5, 101)
    return over(picture, between(np.floor(v * 5) / 4, *palette), 1 - smooth(d1, 0.24, 0.34))


def contour_map(x: Array, y: Array) -> Array:
    height = clouds(x / 20, y / 20, 102, 3)
    base = between(smooth(height, 0.25, 0.75), (150, 196, 160), (226, 220, 170), (196, 150, 110))
    line = np.abs(height * 14 - np.floor(height * 14) - 0.5)
    return over(base, (96, 66, 40), 0.9 * (1 - smooth(0.5 - line, 0.04, 0.14)))


def plain(x: Array, y: Array) -> Array:
    return np.zeros((*x.shape, 3)) + 214.0
