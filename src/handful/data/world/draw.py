"""The compositor: batches of images from their factors, in a few array operations.

Every pixel depends on its own image's factors and key alone and is computed elementwise, with operations that IEEE 754
rounds exactly: the batch that an image is drawn in, its order and the machine do not change a bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from handful.data.world import factors
from handful.data.world.borders import BORDERS, picture
from handful.data.world.glyphs import CELL, SPAN, field
from handful.data.world.grounds import GROUNDS, TILE, tile
from handful.data.world.media import MEDIA, Layers
from handful.data.world.noise import clouds, hashed

VERSION = 1
"""Raised whenever a change alters any pixel; it is part of every collection's id."""
BATCH = 128
_GRAIN = 256


@dataclass(frozen=True)
class Scene:
    """Factor codes (places in `factors.values`, -1 for the neutral value), keys and options of some images."""

    glyph: np.ndarray
    colour: np.ndarray
    ground: np.ndarray
    border: np.ndarray
    size: np.ndarray
    place: np.ndarray
    style: np.ndarray
    noise: np.ndarray
    medium: np.ndarray
    key: np.ndarray
    grain: np.ndarray
    """Like ``key`` for the noise alone: two images that differ only here are near duplicates."""

    def __getitem__(self, rows: np.ndarray | slice) -> Scene:
        return Scene(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def __len__(self) -> int:
        return len(self.key)


class _Bank:
    """Pictures of a factor's values, made when first needed; the neutral value comes last, so that -1 finds it."""

    def __init__(self, names: tuple[str, ...], make: Callable[[str], np.ndarray]):
        self.names, self.make = names, make
        first = make(names[-1])
        self.array = np.zeros((len(names), *first.shape), dtype=first.dtype)
        self.ready = np.zeros(len(names), dtype=bool)

    def of(self, codes: np.ndarray) -> np.ndarray:
        for code in np.unique(codes):
            if not self.ready[code]:
                self.array[code] = self.make(self.names[code])
                self.ready[code] = True
        return self.array


@functools.cache
def _glyphs() -> _Bank:
    table = factors.characters()
    return _Bank(tuple(table), lambda name: field(table[name]))


@functools.lru_cache(maxsize=4)
def _grounds(side: int) -> _Bank:
    return _Bank((*GROUNDS, "plain"), lambda name: _packed(tile(name, side)))


@functools.lru_cache(maxsize=4)
def _borders(side: int) -> _Bank:
    return _Bank((*BORDERS, "none"), lambda name: picture(name, side))


def _packed(rgb: np.ndarray) -> np.ndarray:
    """Three bytes in one word, so that a crop is one gather."""
    wide = rgb.astype(np.uint32)
    return wide[..., 0] | (wide[..., 1] << np.uint32(8)) | (wide[..., 2] << np.uint32(16))


@functools.cache
def _noises() -> tuple[np.ndarray, np.ndarray]:
    """White and cloudy noise in [-0.5, 0.5] that images take their windows from."""
    x, y = np.meshgrid(np.arange(_GRAIN) * 1.0, np.arange(_GRAIN) * 1.0)
    white, cloudy = hashed(x, y, 901), clouds(x / 7, y / 7, 902)
    return (white - 0.5).astype(np.float32), (cloudy - 0.5).astype(np.float32)


def _table(values: dict, neutral: str) -> np.ndarray:
    """Parameters by code, the neutral value's at the end."""
    return np.array([*values.values(), values[neutral]], dtype=np.float32)


_COLOURS = _table(factors.COLOURS, factors.NEUTRAL["colour"])
_SIZES = _table(factors.SIZES, factors.NEUTRAL["size"])
_PLACES = _table(factors.PLACES, factors.NEUTRAL["place"])
_STYLES = _table(factors.STYLES, factors.NEUTRAL["style"])
_NOISES = _table(factors.NOISES, factors.NEUTRAL["noise"])


class _Lots:
    """Uniform random numbers of each image, by name of their use."""

    def __init__(self, keys: np.ndarray):
        self.low, self.high = keys & np.uint64(0xFFFFFFFF), keys >> np.uint64(32)

    def __call__(self, use: int, low: float = 0.0, high: float = 1.0) -> np.ndarray:
        return (low + (high - low) * hashed(self.low, self.high, use)).astype(np.float32)


def draw(
    scene: Scene, side: int, *, grey: bool = False, noise: float = 0.5, sizes: tuple[float, float] = (0.5, 0.75)
) -> np.ndarray:
    """Pixels of some images: uint8 (n, side, side, 3), or one channel if ``grey``.

    Parameters
    ----------
    noise
        Strength of the noise factor, 0 to 1.
    sizes
        The glyph's longer side as a share of the image's, for the smallest and the largest value of the size factor.
    """
    out = np.empty((len(scene), side, side, 1 if grey else 3), dtype=np.uint8)
    for start in range(0, len(scene), BATCH):
        stop = min(start + BATCH, len(scene))
        part = scene[start:stop]
        for medium in np.unique(part.medium):
            rows = np.flatnonzero(part.medium == medium)
            some = part[rows]
            picture = MEDIA[int(medium)][1](_layers(some, side, sizes))
            picture = _noisy(picture, some, side, noise)
            if grey:
                light = picture[..., 0] * 0.299 + picture[..., 1] * 0.587 + picture[..., 2] * 0.114
                picture = light[..., None]
            out[start + rows] = np.floor(np.clip(picture, 0.0, 255.0) + 0.5).astype(np.uint8)
    return out


def _layers(scene: Scene, side: int, sizes: tuple[float, float]) -> Layers:
    lots = _Lots(scene.key)
    light = lots(8, 0.86, 1.12)
    ground = _ground(scene, side, lots) * light[:, None, None, None]
    frame = _borders(side).of(scene.border)[scene.border]
    opaque = frame[..., 3:].astype(np.float32) / 255.0
    base = ground * (1.0 - opaque) + frame[..., :3]
    distance, hollow = _distance(scene, side, sizes, lots)
    ink = _COLOURS[scene.colour] * lots(9, 0.92, 1.04)[:, None]
    return Layers(
        base=base,
        distance=distance,
        hollow=hollow,
        ink=np.minimum(ink, 255.0),
        unit=side / 32,
        grain=_window(0, scene.grain, side),
    )


def _ground(scene: Scene, side: int, lots: _Lots) -> np.ndarray:
    """A random window of each image's ground, mirrored or not."""
    bank = _grounds(side).of(scene.ground)
    room = (TILE - 1) * side
    top, left = (np.floor(lots(k) * room).astype(np.int64) for k in (1, 2))
    across = np.where(lots(3)[:, None] < 0.5, np.arange(side), np.arange(side)[::-1])
    rows, columns = top[:, None] + np.arange(side), left[:, None] + across
    packed = bank[scene.ground[:, None, None], rows[:, :, None], columns[:, None, :]]
    out = np.empty((*packed.shape, 3), dtype=np.float32)
    for channel in range(3):
        out[..., channel] = (packed >> np.uint32(8 * channel)) & np.uint32(255)
    return out


def _distance(scene: Scene, side: int, sizes: tuple[float, float], lots: _Lots) -> tuple[np.ndarray, np.ndarray]:
    """Signed distance of every pixel to its image's contour, in pixels, and which images are drawn hollow."""
    share = sizes[0] + (sizes[1] - sizes[0]) * _SIZES[scene.size]
    share = share * lots(4, 0.95, 1.05)
    size = share * side
    room = np.maximum((1.0 - share) / 2 - 0.07, 0.0) * side
    place = _PLACES[scene.place]
    x0 = side / 2 + place[:, 0] * room + lots(5, -0.02, 0.02) * side
    y0 = side / 2 + place[:, 1] * room + lots(6, -0.02, 0.02) * side
    shear, weight, hollow = _STYLES[scene.style].T
    angle = lots(7, -0.11, 0.11)
    sine, cosine = angle - angle * angle * angle / 6.0, 1.0 - angle * angle / 2.0
    at = np.arange(side, dtype=np.float32) + 0.5
    scale = CELL / SPAN / size
    dx = (at[None, :] - x0[:, None]) * scale[:, None]
    dy = (at[None, :] - y0[:, None]) * scale[:, None]
    # Turn back, then lean back; the field's sample k lies at k + 1/2.
    v = (dy * cosine[:, None])[:, :, None] - (dx * sine[:, None])[:, None, :]
    u = (dx * cosine[:, None])[:, None, :] + (dy * sine[:, None])[:, :, None] + v * shear[:, None, None]
    u = np.clip(u + (CELL / 2 - 0.5), 0.0, CELL - 1.001)
    v = np.clip(v + (CELL / 2 - 0.5), 0.0, CELL - 1.001)
    iu, iv = u.astype(np.int32), v.astype(np.int32)
    pu, pv = u - iu, v - iv
    flat = _glyphs().of(scene.glyph).reshape(-1)
    index = scene.glyph.astype(np.int32)[:, None, None] * (CELL * CELL) + iv * CELL + iu
    a, b = flat[index], flat[index + 1]
    c, d = flat[index + CELL], flat[index + (CELL + 1)]
    top, bottom = a + (b - a) * pu, c + (d - c) * pu
    distance = top + (bottom - top) * pv - weight[:, None, None]
    return distance * size[:, None, None], hollow


def _window(which: int, keys: np.ndarray, side: int) -> np.ndarray:
    """A window of a noise picture for each image."""
    lots = _Lots(keys)
    top, left = (np.floor(lots(k) * _GRAIN).astype(np.int64) for k in (11 + 2 * which, 12 + 2 * which))
    rows, columns = (top[:, None] + np.arange(side)) % _GRAIN, (left[:, None] + np.arange(side)) % _GRAIN
    return _noises()[which][rows[:, :, None], columns[:, None, :]]


def _noisy(picture: np.ndarray, scene: Scene, side: int, strength: float) -> np.ndarray:
    kinds = _NOISES[scene.noise] * strength
    rows = np.flatnonzero(kinds.max(axis=1) > 0)
    if not len(rows):
        return picture
    grain, speck, haze = (k[:, None, None, None] for k in kinds[rows].T)
    white = _window(0, scene.grain[rows] ^ np.uint64(0x5DEECE66D), side)[..., None]
    cloudy = _window(1, scene.grain[rows], side)[..., None]
    some = picture[rows] + 110.0 * grain * white
    some = some + (np.where(white > 0.0, 255.0, 0.0).astype(np.float32) - some) * ((np.abs(white) > 0.47) * speck * 1.2)
    picture[rows] = some + (228.0 - some) * (haze * (0.55 + cloudy))
    return picture


def inked(scene: Scene, side: int, sizes: tuple[float, float]) -> np.ndarray:
    """Which pixels the glyph and its keyline touch in the plain medium: bool (n, side, side)."""
    out = np.empty((len(scene), side, side), dtype=bool)
    for start in range(0, len(scene), BATCH):
        part = scene[start : start + BATCH]
        out[start : start + BATCH] = _layers(part, side, sizes).solid < 1.0 * side / 32 + 0.5
    return out
