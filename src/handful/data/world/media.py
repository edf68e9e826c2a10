"""Drawing media: ten ways to draw the same layers, each a data set of its own for cross-domain tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Layers:
    """What a medium draws from, for a batch of n images of s x s pixels, in float32.

    Parameters
    ----------
    base
        Ground and border, (n, s, s, 3).
    distance
        Signed distance to the glyph's contour in pixels, negative inside, (n, s, s).
    hollow
        1 where the style draws only the contour, (n,).
    ink
        The colour, (n, 3).
    unit
        A thirty-second of the image's side, in pixels.
    grain
        White noise in [-0.5, 0.5], (n, s, s).
    """

    base: Array
    distance: Array
    hollow: Array
    ink: Array
    unit: float
    grain: Array

    @property
    def solid(self) -> Array:
        """Signed distance to what is inked: the body, or its contour where hollow."""
        ring = np.abs(self.distance) - 0.85 * self.unit
        return np.where(self.hollow[:, None, None] > 0, ring, self.distance)


def _cover(distance: Array) -> Array:
    return np.clip(0.5 - distance, 0.0, 1.0)[..., None]


def _light(rgb: Array) -> Array:
    return rgb[..., 0] * 0.299 + rgb[..., 1] * 0.587 + rgb[..., 2] * 0.114


def _mixed(under: Array, colour: Array, alpha: Array) -> Array:
    return under + (colour - under) * alpha


def _rgb(*values: float) -> Array:
    return np.array(values, dtype=np.float32)


def plain(layers: Layers) -> Array:
    """Flat ink with a keyline, light around dark colours and dark around light ones, so that it reads on any ground."""
    solid = layers.solid
    dark = _light(layers.ink) > 118.0
    keyline = np.where(dark[:, None], _rgb(22, 22, 26), _rgb(248, 248, 246))[:, None, None, :]
    picture = _mixed(layers.base, keyline, _cover(solid - 1.0 * layers.unit) * 0.8)
    return _mixed(picture, layers.ink[:, None, None, :], _cover(solid))


def ink_on_paper(layers: Layers) -> Array:
    """Dark ink that bleeds a little into cream paper; the ground is a faint print."""
    paper = _rgb(246, 238, 218) + (layers.base - 128.0) * 0.16
    bled = layers.solid + layers.grain * 1.2
    return _mixed(paper, layers.ink[:, None, None, :] * 0.45, _cover(bled) * 0.94)


def chalk_on_board(layers: Layers) -> Array:
    """Pale, broken strokes on a dark board."""
    board = _rgb(36, 52, 46) + (layers.base - 128.0) * 0.18
    chalk = layers.ink[:, None, None, :] * 0.5 + 125.0
    return _mixed(board, chalk, _cover(layers.solid) * np.clip(0.85 + layers.grain * 1.3, 0.0, 1.0)[..., None])


def neon(layers: Layers) -> Array:
    """Glowing tubes along the contour, at night."""
    far = np.abs(layers.distance) / (1.6 * layers.unit)
    glow = (1.0 / (1.0 + far * far))[..., None]
    tube = _cover(np.abs(layers.distance) - 0.7 * layers.unit)
    bright = layers.ink[:, None, None, :] * 0.75 + 64.0
    return _mixed(layers.base * 0.22 + bright * glow * 0.8, bright * 0.4 + 150.0, tube)


def blueprint(layers: Layers) -> Array:
    """A white contour on ruled blue paper."""
    side = layers.base.shape[1]
    at = np.arange(side, dtype=np.float32) / layers.unit
    ruled = (at - 4.0 * np.floor(at / 4.0)) < 1.0
    grid = (ruled[:, None] | ruled[None, :]).astype(np.float32)[..., None]
    paper = _rgb(24, 62, 140) + (layers.base - 128.0) * 0.16 + grid * 26.0
    line = layers.ink[:, None, None, :] * 0.25 + 190.0
    return _mixed(paper, line, _cover(np.abs(layers.distance) - 0.8 * layers.unit))


def embossed(layers: Layers) -> Array:
    """A raised body lit from the upper left; the ink is a tint."""
    height = np.clip(0.5 - layers.solid / (2.2 * layers.unit), 0.0, 1.0)
    slope = np.zeros_like(height)
    slope[:, 1:, 1:] = height[:, 1:, 1:] - height[:, :-1, :-1]
    stone = 0.55 * layers.base + 0.45 * _light(layers.base)[..., None]
    body = _mixed(stone, layers.ink[:, None, None, :], _cover(layers.solid) * 0.4)
    return body * (1.0 - 0.15 * height[..., None]) + slope[..., None] * 170.0


def photo(layers: Layers) -> Array:
    """Out of focus, darker towards the corners, grainy."""
    picture = plain(layers)
    for axis in (1, 2):
        before, after = np.roll(picture, 1, axis), np.roll(picture, -1, axis)
        picture = picture * 0.5 + (before + after) * 0.25
    side = picture.shape[1]
    at = (np.arange(side, dtype=np.float32) + 0.5) / side * 2.0 - 1.0
    corner = (at * at)[:, None] + (at * at)[None, :]
    return picture * (1.08 - 0.3 * corner)[None, :, :, None] + layers.grain[..., None] * 26.0


def stencil(layers: Layers) -> Array:
    """A sheet of the colour with the glyph cut out; the ground shows through."""
    sheet = layers.ink[:, None, None, :] * (1.0 + layers.grain[..., None] * 0.08)
    shadow = _cover(layers.solid - 1.0 * layers.unit) * 0.5
    return _mixed(sheet * (1.0 - shadow), layers.base, _cover(layers.solid))


def mosaic(layers: Layers) -> Array:
    """Square stones of two units."""
    picture = plain(layers)
    side = picture.shape[1]
    step = max(2, int(2 * layers.unit))
    at = np.minimum(np.arange(side) // step * step + step // 2, side - 1)
    # A stone takes the mean of four fixed points, which keeps thin strokes visible without a sum of unknown order.
    other = np.maximum(at - 1, 0)
    rows, others = picture[:, at], picture[:, other]
    stones = (rows[:, :, at] + rows[:, :, other] + others[:, :, at] + others[:, :, other]) * 0.25
    joint = ((np.arange(side) % step == 0)[:, None] | (np.arange(side) % step == 0)[None, :]).astype(np.float32)
    return stones * (1.0 - (0.0 if step < 4 else 0.25) * joint[None, :, :, None])


def thermal(layers: Layers) -> Array:
    """Brightness as a heat map; the glyph is warm, the colour only shifts how warm."""
    warm = 0.55 * _light(layers.base) * 0.6 + 20.0
    body = 175.0 + 0.3 * _light(layers.ink)[:, None, None]
    near = np.clip(0.5 - layers.solid / (2.4 * layers.unit), 0.0, 1.0)
    heat = warm + (body - warm) * near
    stops = _rgb(0, 64, 128, 192, 256)
    palette = np.array([[8, 6, 40], [92, 18, 120], [206, 56, 80], [250, 160, 40], [255, 250, 200]], dtype=np.float32)
    low = np.clip(np.floor(heat / 64.0), 0, 3).astype(np.int64)
    part = ((heat - stops[low]) / 64.0)[..., None]
    return palette[low] + (palette[low + 1] - palette[low]) * part


MEDIA: tuple[tuple[str, Callable[[Layers], Array]], ...] = (
    ("plain", plain),
    ("ink on paper", ink_on_paper),
    ("chalk on board", chalk_on_board),
    ("neon", neon),
    ("blueprint", blueprint),
    ("embossed", embossed),
    ("photo", photo),
    ("stencil", stencil),
    ("mosaic", mosaic),
    ("thermal", thermal),
)
