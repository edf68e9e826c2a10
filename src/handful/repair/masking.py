"""A collection under the confirmed entries of a plan: rows left out, images moved and weighed, and the rule to draw by."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import numpy as np
import polars as pl

from handful.data.collection import Collection, Part
from handful.data.store import over_hash
from handful.errors import BadInput, Infeasible
from handful.repair.kinds import Entry
from handful.tasks.balanced import WEIGHT

SCHEME = "repaired"


def masked(collection: Collection, entries: Iterable[Entry]) -> Collection:
    """The collection with what is confirmed, in the order of the entries; the very same if nothing is.

    The new split scheme ``repaired`` comes first, those before it stay. No image is changed or copied.
    """
    done = [e for e in entries if e.confirm and e.action != "name"]
    if not done:
        return collection
    card, table, n = collection.card, collection.table, len(collection)
    kept, weights, rule = np.ones(n, dtype=bool), np.ones(n), None
    old = table[card.schemes[0]].cast(pl.String).fill_null("").to_list() if card.schemes else []
    splits = np.asarray(old, dtype=object)
    moved = False
    for e in done:
        rows = np.asarray(e.rows, dtype=np.int64)
        if e.action == "drop":
            kept[rows] = False
        elif e.action == "move":
            if not card.schemes:
                raise BadInput(
                    f"{card.name} has no splits to move images between; take the entry of {e.kind} out of the plan"
                )
            splits[rows], moved = e.to, True
        elif e.action == "weigh":
            weights[rows] *= e.weight
        else:
            rule = dict(e.rule)
    rows = np.flatnonzero(kept)
    if not len(rows):
        raise Infeasible(f"the plan leaves no image of {card.name}; confirm fewer entries")
    new, schemes = table, card.schemes
    if card.schemes and (moved or len(rows) < n):
        if SCHEME in table.columns and SCHEME not in card.schemes:
            raise BadInput(f"{card.name} has a column {SCHEME!r} that holds no splits; rename it and pack it again")
        new = new.with_columns(pl.Series(SCHEME, splits.tolist(), dtype=pl.String))
        schemes = (SCHEME, *(s for s in card.schemes if s != SCHEME))
    if (weights != 1).any():
        if WEIGHT in table.columns:
            raise BadInput(f"{card.name} has a column {WEIGHT!r} already; rename it and pack it again")
        new = new.with_columns(pl.Series(WEIGHT, weights))
    new = new[rows]
    # A mask over a mask is one over the images themselves.
    over, mask = (collection.over, collection.mask) if collection.over is not None else (collection, None)
    own = rows if mask is None else mask[rows]
    digest = over_hash(over.card.hash, len(over), own, new, over.table, rule)
    made = Collection(dataclasses.replace(card, schemes=schemes, hash=digest), new, None, None, over, own)
    made.rule = rule
    return made


def task_part(collection: Collection) -> Part:
    """Where a benchmark's tasks come from: test, or everything where there are no splits."""
    return collection.test if collection.has("test") else collection.whole
