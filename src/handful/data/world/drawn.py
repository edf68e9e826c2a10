"""The embedded collection: images drawn when they are read, no files, every factor known."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from handful.data.collection import Card, Collection
from handful.data.world import factors
from handful.data.world.draw import VERSION, Scene, draw, inked
from handful.data.world.knobs import Knobs
from handful.data.world.media import MEDIA
from handful.data.world.plan import SPLITS, WorldPlan, make_plan
from handful.errors import BadInput, nearest

REMEMBER = 1 << 30
"""Worlds of more bytes than this are drawn again at every reading."""


class World(Collection):
    """Images of glyphs and shapes whose glyph, script, colour, ground, border, size, place, style and noise are known.

    Image i is a pure function of the knobs and of i. Reading draws what has not been drawn yet and remembers it.

    Parameters
    ----------
    knobs
        See `Knobs`; `world` takes them as keyword options.
    """

    def __init__(self, knobs: Knobs):
        self.knobs = knobs
        self.plan = make_plan(knobs)
        side = knobs.size
        free_ground = "ground" not in knobs.label and "ground" not in knobs.fixed
        card = Card(
            name="world",
            kind="images",
            shape=(side, side, 1 if knobs.grey else 3),
            labels=knobs.label,
            version=str(VERSION),
            licence="drawn by the program; glyph outlines from DejaVu Sans (Bitstream Vera licence)",
            schemes=("split",),
            context="ground" if free_ground else None,
            source=knobs.spec,
            hash=knobs.digest,
        )
        super().__init__(card, _table(self.plan, knobs))
        self.scene = Scene(
            **{f: c.astype(np.int64) for f, c in self.plan.drawn.items() if f != "script"},
            key=self.plan.key,
            grain=self.plan.grain,
        )
        self._pixels: np.ndarray | None = None
        self._drawn = np.zeros(len(self.table), dtype=bool)
        if len(self.table) * int(np.prod(card.shape)) <= REMEMBER:
            self._pixels = np.zeros((len(self.table), *card.shape), dtype=np.uint8)

    @property
    def spec(self) -> str:
        return self.knobs.spec

    @property
    def copies(self) -> np.ndarray:
        """The planted duplicates, (n, 2): an image and the image that it is a copy of."""
        return self.plan.copies

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Pixels of the given image numbers, uint8 (n, h, w, c)."""
        rows = np.asarray(rows, dtype=np.int64)
        if self._pixels is None:
            return self._draw(self.scene[rows])
        wanted = np.unique(rows)
        missing = wanted[~self._drawn[wanted]]
        if len(missing):
            self._pixels[missing] = self._draw(self.scene[missing])
            self._drawn[missing] = True
        return self._pixels[rows]

    def what_if(self, rows: np.ndarray, **values: str) -> np.ndarray:
        """The same images with some factors changed and everything else, chance included, as it was.

        >>> world(classes=5, images=2).what_if([0, 1], ground="grass").shape
        (2, 32, 32, 3)
        """
        scene = self.scene[np.asarray(rows, dtype=np.int64)]
        changed = dict(vars(scene))
        for factor, value in values.items():
            if factor not in factors.FACTORS or factor == "script":
                raise BadInput(f"what_if: {factor!r} is not a factor to change; {nearest(factor, factors.FACTORS)}")
            known = (*factors.values(factor), factors.NEUTRAL.get(factor, ""))
            if value not in known:
                raise BadInput(f"what_if: {factor} has no value {value!r}; {nearest(value, known)}")
            code = known.index(value)
            changed[factor] = np.full(len(scene), -1 if code == len(known) - 1 else code)
        return self._draw(Scene(**changed))

    def inked(self, rows: np.ndarray) -> np.ndarray:
        """Which pixels the glyph and its keyline may touch in the plain medium: bool (n, h, w)."""
        return inked(self.scene[np.asarray(rows, dtype=np.int64)], self.knobs.size, self._sizes)

    @property
    def _sizes(self) -> tuple[float, float]:
        return self.knobs.size_range[0], self.knobs.size_range[1]

    def _draw(self, scene: Scene) -> np.ndarray:
        return draw(scene, self.knobs.size, grey=self.knobs.grey, noise=self.knobs.noise, sizes=self._sizes)

    def __reduce__(self) -> tuple[Any, ...]:
        return World, (self.knobs,)


def _table(plan: WorldPlan, knobs: Knobs) -> pl.DataFrame:
    columns: dict[str, pl.Series] = {}
    for factor, codes in plan.codes.items():
        names = pl.Series([*factors.values(factor), factors.NEUTRAL.get(factor, "")])
        columns[factor] = names.gather(np.where(codes < 0, len(names) - 1, codes))
    columns["split"] = pl.Series(SPLITS).gather(plan.split)
    if knobs.styles > 1:
        columns["dataset"] = pl.Series([MEDIA[m][0] for m in plan.datasets]).gather(plan.dataset)
    return pl.DataFrame(columns)


def world(**knobs: Any) -> World:
    """The embedded collection under the given knobs (see `Knobs`).

    >>> world(ground=0.9, size=28, grey=True).card.shape
    (28, 28, 1)
    """
    return World(Knobs(**knobs))
