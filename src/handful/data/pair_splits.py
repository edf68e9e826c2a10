"""Pair collections: splits that share no primitive, and Table 3 of the RLCL paper for any of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from handful.data.collection import Card, Collection
from handful.data.splits import ByFraction
from handful.errors import BadInput

TABLE3 = {
    "attr": {
        "pairs": (1076, 136, 556),
        "first": (105, 33, 52),
        "second": (281, 12, 195),
        "samples": (51928, 29922, 17921),
    },
    "act": {"pairs": (214, 22, 338), "first": (52, 10, 123), "second": (59, 11, 84), "samples": (20604, 1207, 8609)},
}
"""Table 3 of the paper: train, valid, test."""

PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class ByPrimitive(ByFraction):
    """Both label columns' values at random, by fractions of their number; an image is in the split that has both its
    primitives, and in none if they are in two. For any pair collection, whose own splits would share primitives."""

    scheme: str = "primitives"
    train: float = 0.5
    valid: float = 0.25
    test: float = 0.25

    def apply(self, card: Card, table: pl.DataFrame) -> tuple[Card, pl.DataFrame]:
        two_labels(card)
        halves = []
        for column in card.labels:
            own, half = replace(card, labels=(column,)), table.select(column)
            halves.append(super().apply(own, half)[1][self.scheme])
        if self.scheme in table.columns and self.scheme not in card.schemes:
            raise BadInput(f"{card.name} has a column {self.scheme!r} that holds no splits; name the scheme otherwise")
        both = pl.select(pl.when(halves[0] == halves[1]).then(halves[0]).otherwise(pl.lit(""))).to_series()
        schemes = (self.scheme, *(s for s in card.schemes if s != self.scheme))
        return replace(card, schemes=schemes), table.with_columns(both.alias(self.scheme))


def two_labels(card: Card) -> tuple[str, str]:
    """The two label columns of a pair collection; any other is refused."""
    if len(card.labels) != 2:
        raise BadInput(f"{card.name} is labelled by {', '.join(card.labels)}; a pair collection has two label columns")
    return card.labels[0], card.labels[1]


def statistics(collection: Collection, reported: str | None = None) -> pl.DataFrame:
    """Table 3 for a pair collection: pairs, primitives and samples of each split and of all, the paper's numbers beside."""
    labels = two_labels(collection.card)
    scheme = collection.card.schemes[0] if collection.card.schemes else None
    rows: list[dict[str, Any]] = []
    for i, part in enumerate((*PARTS, "all")):
        own = collection.table
        if part != "all":
            own = own.filter(pl.col(scheme) == part) if scheme else own.head(0)
        elif scheme:
            own = own.filter(pl.col(scheme).is_in(PARTS))
        pairs = len(own.select(labels).unique())
        first, second = (own[column].n_unique() for column in labels)
        row: dict[str, Any] = {"split": part, "pairs": pairs, "first": first, "second": second, "samples": len(own)}
        row["grid"] = pairs / (first * second) if pairs else None
        row["samples_a_pair"] = len(own) / pairs if pairs else None
        if reported:
            row |= {f"reported_{k}": (*v, sum(v))[i] for k, v in TABLE3[reported].items()}
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)
