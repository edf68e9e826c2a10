"""Small zero-shot benchmarks for the contract suite."""

from __future__ import annotations

from functools import cache
from typing import Any

from handful.tasks.rule import Rule
from handful.tasks.zero_shot import GeneralisedZeroShot, ZeroShot
from made.planted import planted

# Options that make a method small, where it has them.
QUICK: dict[str, Any] = {"epochs": 2, "steps": 2}


@cache
def _made() -> tuple[Any, Any]:
    return planted(0.5)


def zero_shot(split: str = "test") -> list[Rule]:
    collection, semantics = _made()
    rules: list[Rule] = [ZeroShot(collection.part(split), semantics)]
    if split == "test":
        rules.append(GeneralisedZeroShot(collection.part(split), semantics))
    return rules
