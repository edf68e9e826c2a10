"""Grounds, forty and more: procedural textures on a plane where an image is 32 units wide.

Each is a function of two coordinate arrays to RGB in 0..255, so that a tile can be drawn at any resolution.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from handful.data.world import grounds_made as made
from handful.data.world import grounds_nature as nature
from handful.data.world.noise import Array

TILE = 3
"""Side of a tile in image widths."""

GROUNDS: dict[str, Callable[[Array, Array], Array]] = {
    "grass": nature.grass,
    "straw": nature.straw,
    "water": nature.water,
    "sea": nature.sea,
    "brick": made.brick,
    "blocks": made.blocks,
    "sand": nature.sand,
    "snow": nature.snow,
    "ice": nature.ice,
    "planks": made.planks,
    "bark": nature.bark,
    "granite": nature.granite,
    "cobbles": made.cobbles,
    "gravel": nature.gravel,
    "sky": nature.sky,
    "night sky": nature.night,
    "sunset": nature.sunset,
    "leaves": nature.leaves,
    "autumn leaves": nature.autumn,
    "tiles": made.tiles,
    "checkers": made.checkers,
    "linen": made.linen,
    "denim": made.denim,
    "tartan": made.tartan,
    "awning": made.awning,
    "polka dots": made.polka,
    "knitwear": made.knit,
    "lava": nature.lava,
    "rust": made.rust,
    "steel": made.steel,
    "asphalt": made.asphalt,
    "cardboard": made.cardboard,
    "newspaper": made.newspaper,
    "circuit board": made.circuit,
    "marble": nature.marble,
    "dry mud": nature.mud,
    "honeycomb": made.honeycomb,
    "fish scales": nature.scales,
    "shingles": made.shingles,
    "wire fence": made.fence,
    "camouflage": made.camouflage,
    "bubbles": nature.bubbles,
    "zebra": nature.zebra,
    "leopard": nature.leopard,
    "meadow": nature.meadow,
    "confetti": made.confetti,
    "map": made.contour_map,
    "aurora": nature.aurora,
}


@functools.lru_cache(maxsize=256)
def tile(ground: str, side: int) -> np.ndarray:
    """A tile of TILE x TILE images of ``side`` pixels, two samples a pixel each way: uint8 (h, w, 3)."""
    step = 32.0 / side / 2
    at = (np.arange(2 * TILE * side) + 0.5) * step
    x, y = np.meshgrid(at, at)
    fine = np.clip((made.plain if ground == "plain" else GROUNDS[ground])(x, y), 0.0, 255.0)
    mean = (fine[0::2, 0::2] + fine[1::2, 0::2] + fine[0::2, 1::2] + fine[1::2, 1::2]) * 0.25
    return np.floor(mean + 0.5).astype(np.uint8)
