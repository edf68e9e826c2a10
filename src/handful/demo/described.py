"""The world as features with unseen combinations of seen attributes: what the zero-shot part of the demo asks about."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import numpy as np
import polars as pl

from handful.data.collection import Collection
from handful.methods import make
from handful.nets.compute import Compute
from handful.nets.features import embed_rows, weights_hash
from handful.tasks import NWay, random


def described_features(source: Collection, steps: int, seed: int) -> Collection:
    """Hold out a fifth of the training pairs whose two attributes other training pairs still show, and embed all of it.

    The backbone learns to tell the remaining training pairs apart; the held-out pairs are the unseen classes.
    """
    table = source.table
    train = table.with_row_index("row").filter(pl.col("split") == "train")
    first, second = source.card.labels
    pairs = train.select(first, second).unique(maintain_order=True).rows()
    order = np.argsort(random.words(seed, "held-out", np.asarray([0]), len(pairs))[0])
    kept: set[tuple[Any, ...]] = set(pairs)
    held: set[tuple[Any, ...]] = set()
    for i in order:
        a, b = pairs[i]
        rest = kept - {(a, b)}
        if len(held) < len(pairs) // 5 and any(x == a for x, _ in rest) and any(y == b for _, y in rest):
            kept, held = rest, held | {(a, b)}
    split = ["test" if pair in held else "train" for pair in train.select(first, second).rows()]
    rows = train["row"].to_numpy().astype(np.int64)
    card = dataclasses.replace(source.card, schemes=("split",))
    chosen = Collection(card, train.drop("row").with_columns(split=pl.Series(split)), source.read(rows))
    rule = NWay(chosen.train, 5, 1, 1)
    options = {"net": "conv4:pool=1", "schedule": {"steps": steps, "seed": seed, "rate": 3e-3}}
    learner = make("baseline", **options).meta_fit(rule)
    backbone = learner.backbone  # type: ignore[attr-defined]
    features = embed_rows(backbone, chosen, np.arange(len(chosen)), Compute())
    name = hashlib.sha256((source.id + weights_hash(backbone)).encode()).hexdigest()
    card = dataclasses.replace(card, kind="features", shape=(features.shape[1],), hash=name, context=None)
    return Collection(card, chosen.table, features)
