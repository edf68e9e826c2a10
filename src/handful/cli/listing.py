"""The tables of `handful ls`: methods with what they are for and where they come from, recipes with what they need."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from handful import registry
from handful.errors import BadInput, nearest

Row = dict[str, Any]

CITED = re.compile(r"\(([^()]*\b(?:19|20)\d\d)\b[^()]*\)")
PLAIN = re.compile(r"([A-Z][\w.\- &]+?,? (?:19|20)\d\d)\b")


def methods(filters: Row | None = None) -> list[Row]:
    """One row per method, those that the filters keep."""
    rows = [method_row(name) for name in registry.names("methods")]
    for key, wanted in (filters or {}).items():
        known = sorted({row[key] for row in rows})
        if wanted not in known:
            raise BadInput(f"no method has the {key} {wanted!r}; {nearest(str(wanted), [str(k) for k in known])}")
        rows = [row for row in rows if row[key] == wanted]
    return rows


def method_row(name: str) -> Row:
    from handful.methods.compared import comparisons

    made = registry.make("methods", name)
    places = type(made).__module__.split(".")
    paper = cited(type(made))
    return {
        "name": name,
        "family": places[2].replace("_", "-") if places[:2] == ["handful", "methods"] else "plug-in",
        "setting": setting_of(made),
        "trains on": {"no": "nothing"}.get(made.trains, made.trains),
        "transductive": made.transductive,
        "learning": made.learning,
        "year": int(years[-1]) if (years := re.findall(r"\b(?:19|20)\d\d\b", paper)) else None,
        "paper": paper,
        "compared with": str(comparisons().get(name, "")),
    }


def setting_of(made: Any) -> str:
    if made.axes == 2:
        return "pairs"
    if "images" not in made.needs:
        return "zero-shot"
    return "few-shot" if "labels" in made.needs else "clustering"


def cited(made: Any) -> str:
    """The paper that the docstring names: of the class, of the classes that it is made of, or of its file."""
    own = [c for c in made.__mro__ if c.__module__ not in ("builtins", "handful.methods.contract")]
    texts = [*(c.__doc__ or "" for c in own), sys.modules[made.__module__].__doc__ or ""]
    for text in texts:
        if found := CITED.search(text) or PLAIN.search(text):
            return " ".join(found[1].split())
    return ""


def recipes() -> list[Row]:
    """One row per recipe: what it is called, how long and how it can be run, what it needs and whether that is here."""
    from handful.runs.cost import in_words as time_in_words
    from handful.runs.cost import seconds_of, shape_of
    from handful.runs.recipe import read_facts, read_recipe
    from handful.runs.recipe_file import inherit

    rows = []
    for name in registry.packaged():
        facts = inherit(name, read_facts(name), read_facts)
        scales = list(facts.get("scale") or {})
        needs: dict[str, list[str]] = {}
        times: dict[str, str] = {}
        for scale in scales or [None]:
            recipe = read_recipe(name, scale)
            needs.setdefault(recipe.collection, []).append(scale or "")
            times[scale or ""] = time_in_words(
                seconds_of(recipe, shape_of(card_of(recipe.collection), recipe.collection))
            )
        rows.append(
            {
                "name": name,
                "title": facts["title"],
                "scales": scales,
                "variants": [v for v in facts.get("variant") or {} if "+" not in v],
                "takes": times,
                "collections": {place: [s for s in some if s] for place, some in needs.items()},
                "here": {place: is_here(place) for place in needs},
            }
        )
    return rows


def card_of(place: str) -> Any:
    """The card of a packed folder that is here."""
    from handful.data.collection import Card

    return Card.read(Path(place) / "card.json") if (Path(place) / "card.json").is_file() else None


def is_here(place: str) -> bool:
    """Whether a collection can be opened without getting it first."""
    return place.partition(":")[0] in registry.table("collections") or Path(place).exists()


def show(rows: list[Row]) -> None:
    """A table of plain text: columns as wide as their widest cell, the last one open."""
    if not rows:
        print("there are none")
        return
    cells = [{key: in_words(key, value, row) for key, value in row.items() if key != "here"} for row in rows]
    head = {key: key for key in cells[0]}
    width = {key: max(len(row[key]) for row in (head, *cells)) for key in head}
    for row in (head, *cells):
        print("  ".join(row[key].ljust(width[key]) for key in head).rstrip())
    if any(row.get("learning") for row in rows):
        from handful.runs.filled import LEARNING

        print(LEARNING)
    if any(not all(row.get("here", {}).values()) for row in rows):
        print("not here: get and pack it (handful data get, data pack), or name a collection with --collection")


def in_words(key: str, value: Any, row: Row) -> str:
    if key == "collections":
        return "; ".join(place_in_words(place, scales, row) for place, scales in value.items())
    if key == "takes":
        return "; ".join(f"{scale}: {text}" if scale else text for scale, text in value.items())
    if isinstance(value, bool):
        return "yes" if value else ""
    return ", ".join(value) if isinstance(value, list) else "" if value is None else str(value)


def place_in_words(place: str, scales: list[str], row: Row) -> str:
    only = f"{', '.join(scales)}: " if len(row["collections"]) > 1 else ""
    return f"{only}{place} ({'here' if row['here'][place] else 'not here'})"
