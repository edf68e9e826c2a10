"""Rules by name, from the plain values of a command line or a recipe."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

from handful import registry
from handful.data.collection import Part
from handful.errors import BadInput, nearest
from handful.tasks.rule import Rule


def make_rule(name: str, part: Part, **options: Any) -> Rule:
    """A registered rule on a part.

    A range is a pair, or ``"2-20"``. A rule that wraps another takes it as ``of = {rule = "n-way", ways = 5, ...}``.
    Unknown options are refused with the nearest known ones.
    """
    cls = registry.get("rules", name)
    known = {f.name: f for f in dataclasses.fields(cls) if f.name != "part"}
    types = typing.get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in options.items():
        if key not in known:
            raise BadInput(f"the rule {name} has no option {key!r}; {nearest(key, known)}")
        if isinstance(value, dict) and types[key] is Rule:
            inner = dict(value)
            value = make_rule(inner.pop("rule", "n-way"), part, **inner)
        elif isinstance(value, str) and "tuple" in str(types[key]) and "int" in str(types[key]):
            value = parse_range(value, key)
        elif isinstance(value, list):
            value = tuple(value)
        values[key] = value
    try:
        return cls(part, **values)
    except TypeError as error:
        raise BadInput(f"the rule {name} cannot be made: {error}") from error


def parse_range(text: str, what: str) -> int | tuple[int, int]:
    """``5`` or ``2-20``."""
    low, dash, high = str(text).partition("-")
    try:
        return (int(low), int(high)) if dash else int(low)
    except ValueError as error:
        raise BadInput(f"{what} must be a number or a range such as 2-20, not {text!r}") from error
