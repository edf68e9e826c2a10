"""Which public code each method was run against, at which commit, to what difference: one table, for listings and docs."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class PublicCode:
    """The same weights and inputs through public code and through this library.

    Parameters
    ----------
    code, commit
        Repository (owner/name) and the commit that was run.
    what, within
        What was compared, and the largest absolute difference.
    but
        What differs beside it.
    """

    code: str
    commit: str
    what: str
    within: float
    but: str = ""

    def __str__(self) -> str:
        return f"{self.code}@{self.commit} to {self.within:.0e}"


@cache
def comparisons() -> dict[str, PublicCode]:
    """All comparisons by method; a method that is not there was not compared."""
    text = resources.files("handful.methods").joinpath("compared.toml").read_text(encoding="utf-8")
    return {name: PublicCode(**facts) for name, facts in tomllib.loads(text).items()}
