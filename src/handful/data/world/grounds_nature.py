"""Grounds of the outdoors: plants, water, stone, sky, hides."""

from __future__ import annotations

import numpy as np

from handful.data.world.grounds_made import rows
from handful.data.world.noise import Array, between, cells, clouds, hashed, noise, over, saw, shaded, smooth, wave


def grass(x: Array, y: Array) -> Array:
    lean = x + 1.5 * noise(x / 9, y / 9, 3)
    blades = noise(lean / 0.9, y / 4.5, 1)
    return between(0.65 * blades + 0.35 * clouds(x / 10, y / 10, 2), (22, 70, 14), (62, 128, 30), (140, 190, 70))


def straw(x: Array, y: Array) -> Array:
    a, b = noise((x + y) / 1.1, (x - y) / 7, 5), noise((x - y) / 1.1, (x + y) / 7, 6)
    return between(np.maximum(a, b), (110, 78, 22), (206, 166, 72), (246, 220, 140))


def water(x: Array, y: Array) -> Array:
    d1, d2, _ = cells(x / 8 + 0.6 * noise(x / 5, y / 5, 4), y / 5 + 0.6 * noise(x / 5, y / 5, 5), 7)
    base = between(clouds(x / 14, y / 10, 8), (16, 96, 158), (48, 158, 204))
    return over(base, (212, 246, 255), 1 - smooth(d2 - d1, 0.02, 0.22))


def sea(x: Array, y: Array) -> Array:
    t = y / 6 + 0.5 * wave(x / 16 + 2 * noise(x / 20, y / 12, 9))
    crest = smooth(wave(t), 0.55, 1.0) * noise(x / 3, y / 2, 10)
    return over(between(0.5 + 0.5 * wave(t), (6, 26, 66), (14, 66, 116)), (226, 240, 246), 1.5 * crest)


def sand(x: Array, y: Array) -> Array:
    ripple = wave(y / 5.5 + 0.9 * noise(x / 12, y / 14, 15) + x / 40)
    return between(
        0.5 + 0.3 * ripple + 0.35 * (noise(x / 0.7, y / 0.7, 16) - 0.5),
        (186, 142, 84),
        (226, 190, 132),
        (250, 226, 178),
    )


def snow(x: Array, y: Array) -> Array:
    base = between(clouds(x / 12, y / 8, 17), (190, 208, 232), (240, 246, 252), (255, 255, 255))
    return over(base, (150, 176, 214), 0.8 * smooth(hashed(np.floor(x / 0.9), np.floor(y / 0.9), 18), 0.93, 0.98))


def ice(x: Array, y: Array) -> Array:
    d1, d2, v = cells(x / 13, y / 13, 19)
    base = between(0.6 * v + 0.4 * clouds(x / 8, y / 8, 20), (150, 206, 232), (206, 238, 250))
    return over(base, (252, 255, 255), 1 - smooth(d2 - d1, 0.0, 0.1))


def bark(x: Array, y: Array) -> Array:
    d1, d2, v = cells(x / 3.2 + 0.5 * noise(x / 4, y / 6, 25), y / 10, 26)
    return shaded(
        between(0.5 * v + 0.5 * noise(x, y / 3, 27), (92, 66, 46), (150, 116, 86)),
        0.35 + 0.75 * smooth(d2 - d1, 0.0, 0.4),
    )


def granite(x: Array, y: Array) -> Array:
    base = between(clouds(x / 9, y / 9, 28), (120, 116, 116), (168, 164, 162))
    specks = hashed(np.floor(x / 1.1), np.floor(y / 1.1), 29)
    return over(over(base, (52, 50, 52), 0.8 * (specks > 0.84)), (232, 226, 222), 0.8 * (specks < 0.13))


def gravel(x: Array, y: Array) -> Array:
    d1, d2, v = cells(x / 3, y / 3, 31)
    return shaded(between(v, (96, 84, 76), (160, 150, 140), (222, 212, 200)), 0.35 + 0.75 * smooth(d2 - d1, 0.0, 0.4))


def sky(x: Array, y: Array) -> Array:
    base = between(0.5 + 0.5 * wave(y / 130), (92, 160, 228), (150, 204, 246))
    return over(base, (255, 255, 255), smooth(clouds(x / 15, y / 9, 33, 4), 0.45, 0.68))


def night(x: Array, y: Array) -> Array:
    base = between(clouds(x / 18, y / 18, 34), (6, 6, 26), (26, 22, 66), (56, 34, 96))
    d1, _, v = cells(x / 5, y / 5, 35)
    return over(base, (255, 250, 226), (1 - smooth(d1, 0.04, 0.21)) * (v > 0.35))


def sunset(x: Array, y: Array) -> Array:
    t = y / 40 + 0.16 * clouds(x / 14, y / 3, 36)
    return between(saw(t), (58, 22, 84), (176, 44, 92), (244, 110, 60), (255, 202, 92))


def leaf(x: Array, y: Array, seed: int, *palette: tuple[int, int, int]) -> Array:
    picture = np.zeros((*x.shape, 3)) + np.array(palette[0], dtype=np.float64) * 0.45
    for layer in range(3):
        u, v = (x + y) / 9 + 0.37 * layer, (x - y) / 5.5 + 0.61 * layer
        if layer == 1:
            u, v = (x - y) / 9, (x + y) / 5.5 + 0.3
        iu, iv = np.floor(u), np.floor(v)
        du, dv = 2 * (u - iu) - 1, 2 * (v - iv) - 1
        inside = 1 - du * du - np.abs(dv) * 1.15
        face = between(hashed(iu, iv, seed + layer), *palette)
        face = shaded(face, 0.72 + 0.4 * smooth(np.abs(dv), 0.0, 0.3))
        picture = over(picture, face, smooth(inside, 0.0, 0.16) * (hashed(iu, iv, seed + 9 + layer) > 0.12))
    return picture


def leaves(x: Array, y: Array) -> Array:
    return leaf(x, y, 37, (26, 84, 30), (58, 140, 46), (120, 186, 70))


def autumn(x: Array, y: Array) -> Array:
    return leaf(x, y, 50, (120, 30, 16), (206, 84, 20), (236, 170, 40))


def lava(x: Array, y: Array) -> Array:
    d1, d2, v = cells(x / 10 + 0.4 * noise(x / 4, y / 4, 70), y / 10 + 0.4 * noise(x / 4, y / 4, 71), 72)
    return between(
        1 - smooth(d2 - d1, 0.0, 0.32) + 0.1 * v, (24, 14, 14), (122, 22, 8), (255, 116, 10), (255, 232, 110)
    )


def marble(x: Array, y: Array) -> Array:
    vein = np.abs(wave((x + y) / 34 + 1.6 * clouds(x / 14, y / 14, 81, 4)))
    return over(
        between(clouds(x / 9, y / 9, 82), (214, 210, 208), (250, 248, 246)),
        (104, 104, 116),
        0.9 - smooth(vein, 0.0, 0.3),
    )


def mud(x: Array, y: Array) -> Array:
    d1, d2, v = cells(x / 9, y / 9, 83)
    return over(
        between(0.5 * v + 0.5 * clouds(x / 4, y / 4, 84), (132, 98, 66), (176, 140, 100)),
        (46, 30, 18),
        1 - smooth(d2 - d1, 0.04, 0.16),
    )


def scales(x: Array, y: Array) -> Array:
    du, dv, column, row = rows(x, y, 7, 4)
    _, _, column_above, row_above = rows(x, y - 4, 7, 4)
    inside = dv < 1.05 - 3.4 * du * du
    value = np.where(inside, hashed(column, row, 87), hashed(column_above, row_above + 1, 87))
    light = 0.5 + 0.65 * smooth(np.where(inside, dv, 0.0), 0.0, 0.75)
    return shaded(between(value, (20, 112, 116), (96, 190, 172)), light)


def bubbles(x: Array, y: Array) -> Array:
    d1, _, v = cells(x / 8, y / 8, 93, 0.5)
    radius = 0.22 + 0.24 * v
    rim = 1 - smooth(np.abs(d1 - radius), 0.02, 0.12)
    base = between(clouds(x / 16, y / 16, 94), (120, 96, 200), (182, 160, 240))
    return over(over(base, (214, 206, 255), 0.5 * (d1 < radius)), (255, 255, 255), rim)


def zebra(x: Array, y: Array) -> Array:
    t = y / 7 + 1.1 * clouds(x / 16, y / 16, 95) + 0.25 * wave(x / 22)
    return between(smooth(wave(t), -0.15, 0.15), (22, 20, 20), (244, 240, 232))


def leopard(x: Array, y: Array) -> Array:
    d1, _, v = cells(x / 6.5, y / 6.5, 96)
    ring = (1 - smooth(np.abs(d1 - 0.3), 0.08, 0.16)) * (noise(x / 2, y / 2, 97) > 0.3)
    base = between(clouds(x / 9, y / 9, 98), (206, 150, 74), (240, 198, 122))
    return over(over(base, (160, 98, 38), 0.7 * (d1 < 0.26)), (40, 24, 14), ring * (0.6 + 0.4 * v))


def meadow(x: Array, y: Array) -> Array:
    picture = shaded(grass(x, y), np.full(x.shape, 0.85))
    d1, _, v = cells(x / 5.5, y / 5.5, 99)
    petals = between(v, (250, 240, 120), (250, 120, 160), (250, 250, 250), (190, 120, 240))
    picture = over(picture, petals, (1 - smooth(d1, 0.2, 0.32)) * (v > 0.12))
    return over(picture, (246, 186, 30), 1 - smooth(d1, 0.05, 0.14))


def aurora(x: Array, y: Array) -> Array:
    curtain = noise((x + 6 * noise(x / 12, y / 12, 103)) / 5, y / 44, 104)
    return between(curtain * (0.55 + 0.45 * wave(y / 60)), (8, 14, 44), (20, 96, 96), (90, 236, 150), (190, 250, 200))
