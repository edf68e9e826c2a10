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


def as_markdown(names: list[str]) -> str:
    """The table of the docs, and the methods among ``names`` that were not compared."""
    found = comparisons()
    lines = [
        "| method | public code | commit | what was compared | largest difference | beside that |",
        "|---|---|---|---|---|---|",
    ]
    for name, c in sorted(found.items()):
        lines.append(f"| `{name}` | {c.code} | {c.commit} | {c.what} | {c.within:.0e} | {c.but} |")
    rest = ", ".join(f"`{name}`" for name in names if name not in found)
    return "\n".join(lines) + f"\n\nNot compared with a public code by running both: {rest}.\n"
