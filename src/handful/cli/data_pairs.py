"""What `handful data` says of a pair collection: pairs, primitives and samples of each split, and a task's references."""

from __future__ import annotations

from typing import Any

from handful.errors import Infeasible

REPORTED_REFERENCES = {"attr": (1.28, 6.39)}
"""Seen pairs and samples of each primitive in a test task of 5 primitives a side and 5 shots, as the paper reports them."""


def is_pairs(collection: Any) -> bool:
    return len(collection.card.labels) == 2


def built_by(collection: Any) -> str | None:
    """``attr`` or ``act`` for a collection that one of the two builders has packed."""
    importer = (collection.card.source or "").partition(":")[0]
    return importer.removeprefix("rlcl-") if importer in ("rlcl-attr", "rlcl-act") else None


def pair_facts(collection: Any, primitives: int = 5, shots: int = 5) -> dict[str, Any]:
    """Counts of each split, and the references of its tasks or why there are none."""
    from handful.data.pair_splits import statistics
    from handful.tasks.pairs import Pairs, references

    found: dict[str, dict[str, float] | str] = {}
    for part in ("train", "valid", "test"):
        if not collection.has(part):
            continue
        try:
            rule = Pairs(collection.part(part), primitives=primitives, shots=shots)
            rule.check()
            found[part] = references(rule)
        except Infeasible as error:
            found[part] = str(error)
    return {
        "primitives": primitives,
        "shots": shots,
        "splits": statistics(collection, built_by(collection)).to_dicts(),
        "references": found,
    }


def print_pairs(collection: Any, facts: dict[str, Any]) -> None:
    which = built_by(collection)
    first, second = collection.card.labels
    columns = (("pairs", "pairs"), ("first", f"{first}s"), ("second", f"{second}s"), ("samples", "samples"))
    for row in facts["splits"]:
        counted = ", ".join(
            f"{row[k]:,} {name}" + (f" (reported {row[f'reported_{k}']:,})" if which else "") for k, name in columns
        )
        dense = (
            f"; {100 * row['grid']:.1f}% of the grid, {row['samples_a_pair']:.2f} samples per pair"
            if row["pairs"]
            else ""
        )
        print(f"{row['split']}: {counted}{dense}")
    primitives, shots = facts["primitives"], facts["shots"]
    for part, value in facts["references"].items():
        if isinstance(value, str):
            print(f"{part}: no tasks: {value}")
            continue
        reported = REPORTED_REFERENCES.get(which or "") if part == "test" and (primitives, shots) == (5, 5) else None
        print(
            f"{part} tasks of {primitives} primitives on each side and {shots} shots: "
            f"{value['seen_pairs_a_primitive']:.2f} seen pairs and {value['samples_a_primitive']:.2f} samples per primitive"
            + (f" (reported {reported[0]} and {reported[1]})" if reported else "")
        )
