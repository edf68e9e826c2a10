"""The world's knobs: their defaults, their spelling on the command line, and what they refuse."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from typing import Any, ClassVar

from handful.data.world import factors
from handful.data.world.draw import VERSION
from handful.data.world.media import MEDIA
from handful.errors import BadInput, nearest
from handful.options import Checked

CROSSED = ("glyph", "colour", "ground", "border")
"""The factors that a crossed world crosses."""


@dataclass(frozen=True, kw_only=True)
class Knobs(metaclass=Checked):
    """Everything that decides the world's images and labels.

    Parameters
    ----------
    label
        The factor that is the class, or a pair of factors for pair collections.
    classes
        How many values of the label factor (of each, for a pair) there are; 0 for all (40 of each for a pair).
    images
        Images per class (a pair, in pair collections).
    size, grey, noise, size_range
        Side in pixels; one channel; strength of the noise factor; the glyph's side as a share of the image's.
    seed
        Another seed, another world with the same statistics.
    splits
        Shares of the label's values in train, valid and test.
    disjoint
        Further factors whose values are split like the label's, instead of shared by all splits.
    fixed
        Factors held at their neutral value (black ink, plain ground, no border, ...).
    ground
        0 to 1: the share of each training class's images that lie on the class's own ground. The others, and all
        images of valid and test, lie on grounds that do not depend on the class. With more training classes than
        grounds, several classes have the same home.
    contexts
        How many grounds the classes of valid and of test are seen on, each equally often; the same for all classes.
        0 for all grounds; fewer if the split has fewer (see ``disjoint``).
    train_contexts
        The same for the training images that are not at home.
    crossed
        Every combination of glyph, colour, ground and border exists, with values of its own in each split.
    values, glyph_values
        Values of each crossed factor, and of the glyph, in train, valid and test: the product is the number of
        combinations. Glyphs are the factor that new values of are hardest to recognise, so training has more of them.
    copies
        Images of each crossed combination.
    mask
        For a pair: the share of the grid of pairs that exists in each split (never less than what shows every
        primitive once).
    styles
        How many drawing media there are, each a data set with classes of its own.
    split_by
        "class", or "dataset" to keep each data set in one split; empty for "dataset" exactly if there are three styles
        or more.
    duplicates
        Share of the test images that are copies of training images.
    repeats
        Share of the test images that are copies of other test images of their class.
    near
        Copies are drawn with noise of their own, so that they are near instead of exact duplicates.
    """

    name: ClassVar[str] = "world"

    label: tuple[str, ...] = ("glyph",)
    classes: int = 0
    images: int = 40
    size: int = 32
    grey: bool = False
    noise: float = 0.3
    size_range: tuple[float, ...] = (0.5, 0.75)
    seed: int = 0
    splits: tuple[float, ...] = ()
    disjoint: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    ground: float = 0.0
    contexts: int = 8
    train_contexts: int = 0
    crossed: bool = False
    values: tuple[int, ...] = (8, 6, 8)
    glyph_values: tuple[int, ...] = (60, 8, 12)
    copies: int = 2
    mask: float = 1.0
    styles: int = 1
    split_by: str = ""
    duplicates: float = 0.0
    repeats: float = 0.0
    near: bool = False

    def __post_init__(self) -> None:
        for knob in ("values", "glyph_values"):
            if len(getattr(self, knob)) == 1:
                object.__setattr__(self, knob, getattr(self, knob) * 3)
        for knob in ("label", "disjoint", "fixed"):
            for factor in getattr(self, knob):
                if factor not in factors.FACTORS:
                    raise BadInput(f"world: {knob}={factor!r} is not a factor; {nearest(factor, factors.FACTORS)}")
        if len(self.label) not in (1, 2) or len(set(self.label)) != len(self.label):
            raise BadInput(f"world: label must be one factor or two different ones, not {self.label}")
        if set(self.label) == {"glyph", "script"}:
            raise BadInput("world: a glyph has one script, so they cannot be a pair; pair another factor with glyph")
        if set(self.label) & set(self.fixed):
            raise BadInput(f"world: {'+'.join(self.label)} is the label and cannot be fixed; drop it from fixed")
        if set(self.fixed) & {"glyph", "script"}:
            raise BadInput("world: the glyph cannot be fixed; fix other factors")
        for knob in ("ground", "noise", "mask", "duplicates", "repeats"):
            if not 0 <= getattr(self, knob) <= 1:
                raise BadInput(f"world: {knob} must lie between 0 and 1, not {getattr(self, knob)}")
        for knob, low, high in (
            ("images", 1, 100_000),
            ("size", 8, 512),
            ("copies", 1, 1000),
            ("styles", 1, len(MEDIA)),
            ("contexts", 0, len(factors.values("ground"))),
            ("train_contexts", 0, len(factors.values("ground"))),
            ("classes", 0, 10**6),
            ("seed", 0, 2**62),
        ):
            if not low <= getattr(self, knob) <= high:
                raise BadInput(f"world: {knob} must lie between {low} and {high}, not {getattr(self, knob)}")
        if self.splits and (len(self.splits) != 3 or min(self.splits) < 0 or abs(sum(self.splits) - 1) > 1e-6):
            raise BadInput(f"world: splits must be three shares that sum to 1, not {self.splits}")
        if len(self.size_range) != 2 or not 0.1 <= self.size_range[0] <= self.size_range[1] <= 1:
            raise BadInput(f"world: size_range must be two rising shares between 0.1 and 1, not {self.size_range}")
        if self.ground and ("ground" in self.label or "ground" in self.fixed or self.crossed):
            raise BadInput(
                "world: ground=STRENGTH needs a ground that is neither label, fixed nor crossed; set it to 0"
            )
        if self.split_by not in ("", "class", "dataset") or (self.split_by == "dataset" and self.styles < 3):
            raise BadInput(f"world: split_by is class, or dataset with styles of 3 or more, not {self.split_by!r}")
        for knob in ("values", "glyph_values"):
            if len(getattr(self, knob)) != 3 or min(getattr(self, knob)) < 2:
                raise BadInput(f"world: {knob} must be three numbers of at least 2, not {getattr(self, knob)}")
        if self.crossed:
            if len(self.label) != 1 or self.label[0] not in CROSSED or set(self.fixed) & set(CROSSED):
                raise BadInput(f"world: crossed needs one label among {', '.join(CROSSED)}, none of them fixed")
            if self.styles > 1:
                raise BadInput("world: a crossed world has one drawing style; set styles to 1")
        if len(self.label) == 2 and self.styles > 1:
            raise BadInput("world: a pair collection has one drawing style; set styles to 1")
        if self.mask < 1 and len(self.label) == 1:
            raise BadInput("world: mask hides pairs, so label must be two factors, such as label=colour+glyph")
        if self.duplicates + self.repeats > 1:
            raise BadInput("world: duplicates and repeats together cannot exceed 1")

    @property
    def shares(self) -> tuple[float, ...]:
        """Shares of the splits; a crossed world needs more values in valid and test."""
        return self.splits or ((0.5, 0.2, 0.3) if self.crossed else (0.6, 0.15, 0.25))

    @property
    def by_dataset(self) -> bool:
        return self.split_by == "dataset" or (self.split_by == "" and self.styles >= 3)

    @property
    def spec(self) -> str:
        """The knobs that differ from their defaults, as the command line spells them."""
        said = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                said.append(f"{field.name}={_said(value)}")
        return "world" + (":" + ",".join(said) if said else "")

    @property
    def digest(self) -> str:
        """Hash of the knobs and of the drawing version; the seed of everything drawn."""
        text = json.dumps([VERSION, dataclasses.asdict(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def _said(value: Any) -> str:
    if isinstance(value, tuple):
        return "+".join(_said(v) for v in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
