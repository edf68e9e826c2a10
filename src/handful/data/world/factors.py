"""The world's factors: every value of glyph, script, colour, size, place, style and noise, by name.

Grounds and borders have their tables beside the code that draws them. The glyphs were chosen so that no mask nearly
coincides with another's (a test says how nearly).
"""

from __future__ import annotations

import functools
import unicodedata

from handful.data.world import shapes
from handful.data.world.borders import BORDERS
from handful.data.world.grounds import GROUNDS

_LETTERS = {
    "digits": "0123457",
    "latin": "ABCDEFGHIJKLMNQRTUVWXYZbdefkmnpqrtßæ",
    "greek": "ΓΔΞΣΦΨαβζλνξπςφωϗϘϞϠϡϪϬϯ",
    "cyrillic": "ДЖИЙЛУЦЧШЩЪЫЬЭЮЯЂЉЊѦѪѬѮѰѴ҂ҖҨ",
    "hebrew": "בגדךכלמנעףץצקרש",
    "lao": "ກຂຄຈຊຍຖທນຜຝວສຫຯະ໑໒໓໕໖໘໙ໜ",
    "tifinagh": "ⴰⴳⴶⴻⴼⴽⴾⴿⵁⵂⵃⵄⵆⵈⵋⵌⵐⵒⵓⵔⵖⵗⵘⵛⵢⵣⵤ",
    "nko": "߂߃߅߆߇߉ߍߎߏߑߒߔߖߗߘߙߚߜߝߞߟߢߤߥ",
    "old italic": "𐌂𐌊𐌌𐌍𐌎𐌔𐌕𐌖𐌘𐌙𐌜𐌣",
    "armenian": "ԲԳԴԵԶԸԹԺԻԽԿՀՃՄՆՇՌՎՏՐՒՔՖդէթիլխկ",
    "georgian": "აბგდეთკლნჟრტფქღჭჯჰჴჸჹჺႠႢႥႧႨႩႪႫ",
    "arabic": "ءؤئبتثجخدذرزسشضطعغفقكلمنوىي",
    "ogham": "ᚁᚂᚃᚄᚅᚆᚇᚈ",
    "syllabics": "ᐊᓀᓂᓓᓕᓗᓚᓯᔦᔨᔪᔭᕆᕈᕋᕓᕕᕗᕙᕴᖊᖏᙯᙱᖕᖖᖠᖬ",
    "mathematics": "∂∈∋√∛∝∞∠∡∫∴∵∼≅≈≎≏≠≢≣≤≪≮⊂⊄⊆⊏⊢⊨⊪",
    "symbols": "☀☂☘☠☢☥☯☺♔♫♿⚑⚒⚓⚔⚖⚘⚛⚡☿♃♄♆♈♉♋♌♎",
}
_UNSAID = {"letter", "small", "canadian", "sign", "for", "with"}

COLOURS: dict[str, tuple[int, int, int]] = {
    "white": (250, 250, 250),
    "black": (18, 18, 20),
    "red": (225, 20, 30),
    "maroon": (112, 8, 26),
    "salmon": (255, 132, 116),
    "rust": (182, 66, 14),
    "orange": (255, 128, 0),
    "peach": (255, 200, 160),
    "brown": (110, 62, 20),
    "tan": (205, 165, 105),
    "gold": (222, 165, 10),
    "yellow": (255, 232, 20),
    "cream": (255, 246, 190),
    "olive": (118, 116, 10),
    "lime": (178, 242, 20),
    "green": (30, 165, 40),
    "forest": (8, 78, 28),
    "mint": (155, 245, 185),
    "jade": (0, 168, 112),
    "teal": (0, 110, 112),
    "turquoise": (48, 222, 205),
    "cyan": (20, 190, 240),
    "ice": (200, 235, 255),
    "sky": (118, 172, 248),
    "azure": (20, 118, 240),
    "blue": (28, 42, 222),
    "navy": (14, 18, 98),
    "slate": (88, 108, 138),
    "lavender": (196, 180, 255),
    "violet": (142, 82, 246),
    "purple": (112, 14, 150),
    "plum": (72, 14, 70),
    "magenta": (238, 22, 222),
    "orchid": (220, 122, 220),
    "pink": (255, 176, 210),
    "rose": (242, 32, 122),
    "mauve": (156, 92, 122),
    "grey": (140, 140, 140),
    "charcoal": (66, 68, 70),
    "moss": (142, 168, 92),
}

SIZES: dict[str, float] = {"tiny": 0.0, "small": 0.25, "medium": 0.5, "large": 0.75, "huge": 1.0}
"""Where in the size range a value lies."""

PLACES: dict[str, tuple[int, int]] = {
    "centre": (0, 0),
    "top left": (-1, -1),
    "top": (0, -1),
    "top right": (1, -1),
    "left": (-1, 0),
    "right": (1, 0),
    "bottom left": (-1, 1),
    "bottom": (0, 1),
    "bottom right": (1, 1),
}
"""Which way the glyph is moved from the centre, in steps."""

STYLES: dict[str, tuple[float, float, float]] = {
    f"{weight} {slant}".strip(): (lean, heavy, hollow)
    for weight, heavy, hollow in (
        ("regular", 0.0, 0.0),
        ("light", -0.018, 0.0),
        ("bold", 0.035, 0.0),
        ("outline", 0.03, 1.0),
    )
    for slant, lean in (("upright", 0.0), ("slanted", 0.28), ("backward", -0.28))
}
"""Slant (shear), stroke weight added on each side (glyph units), and whether only the contour is drawn."""

NOISES: dict[str, tuple[float, float, float]] = {
    "clean": (0.0, 0.0, 0.0),
    "grain": (1.0, 0.0, 0.0),
    "speckle": (0.0, 1.0, 0.0),
    "haze": (0.0, 0.0, 1.0),
    "grain and haze": (0.7, 0.0, 0.7),
}
"""Weights of fine grain, sparse specks and a pale veil."""


def _name(script: str, character: str) -> str:
    """A name from the character's Unicode name, which never changes; capital letters are capitalised."""
    said = unicodedata.name(character).lower().replace("old italic", "").replace("-", " ").split()
    if script in ("mathematics", "symbols"):
        return " ".join(w for w in said if w not in _UNSAID)
    capital = "capital" in said
    unsaid = {*_UNSAID, script, "arabic", "syllabics", "nko", "digit", "capital"}
    words = [w.capitalize() if capital else w for w in said if w not in unsaid]
    return " ".join([script.removesuffix("s") if script == "digits" else script, *words])


@functools.cache
def characters() -> dict[str, str]:
    """Glyph name to what `glyphs.field` takes: a character, or a shape's name."""
    table = {name: name for name in shapes.names()}
    for script, letters in _LETTERS.items():
        table.update({_name(script, c): c for c in letters})
    return table


@functools.cache
def scripts() -> dict[str, str]:
    """Glyph name to its script."""
    table = dict.fromkeys(shapes.names(), "shapes")
    for script, letters in _LETTERS.items():
        table.update({_name(script, c): script for c in letters})
    return table


@functools.cache
def values(factor: str) -> tuple[str, ...]:
    """All values of a factor, in the order that codes follow."""
    return {
        "glyph": lambda: tuple(characters()),
        "script": lambda: ("shapes", *_LETTERS),
        "colour": lambda: tuple(COLOURS),
        "ground": lambda: tuple(GROUNDS),
        "border": lambda: tuple(BORDERS),
        "size": lambda: tuple(SIZES),
        "place": lambda: tuple(PLACES),
        "style": lambda: tuple(STYLES),
        "noise": lambda: tuple(NOISES),
    }[factor]()


FACTORS = ("glyph", "script", "colour", "ground", "border", "size", "place", "style", "noise")
NEUTRAL = {
    "colour": "black",
    "ground": "plain",
    "border": "none",
    "size": "medium",
    "place": "centre",
    "style": "regular upright",
    "noise": "clean",
}
"""The value of a factor that is held fixed."""
