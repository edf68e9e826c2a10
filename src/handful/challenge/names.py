"""Names as people see them: what looks alike is one name, whatever its letters are."""

from __future__ import annotations

import unicodedata

# Letters of other alphabets that are drawn like Latin ones; capitals and small letters may resemble different ones.
_ALIKE = str.maketrans(
    "АВЕКМНОРСТУХЅІЈҮԚԜӀаеорсухѕіјһԁԛԝӏквмнтьүΑΒΕΖΗΙΚΜΝΟΡΤΥΧαεικνορτυχγωıɩɑɡʟɴʀøØłŁđĐοօոսհ|",
    "ABEKMHOPCTYXSIJYQWIaeopcyxsijhdqwlkbmhtbyABEZHIKMNOPTYXaeiknoptuxywiiaglnroOlLdDoonuhl",
)
# In many typefaces a capital I, a small l and a 1 are one stroke.
_STROKES = str.maketrans("i10", "llo")


def fold(name: str) -> str:
    """A form that is equal for names that a reader would take for each other.

    Case, accents, invisible characters, full-width and other compatibility forms, look-alike letters of other
    alphabets, and the pairs 0-o, 1-l-I and rn-m are told apart no more.
    """
    plain = unicodedata.normalize("NFKD", name.translate(_ALIKE))
    # Marks, invisible and control characters go, and so does all space.
    plain = "".join(c for c in plain if unicodedata.category(c) not in ("Mn", "Me", "Cf", "Cc", "Zs", "Zl", "Zp"))
    return plain.translate(_ALIKE).casefold().translate(_STROKES).replace("rn", "m")[:200]
