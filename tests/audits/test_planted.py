"""Planted truths on the world: each knob at three settings, seen by its diagnosis and by no other.

Features are the ground truth (one place for every value of a factor, with a little noise), so that what a diagnosis sees
is what was planted and not what a net makes of it.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import handful as hf
from handful import registry
from handful.audits.context import Context
from handful.data.collection import Card, Collection
from handful.tasks.crossed import Crossed


def codes(c: Collection, column: str) -> np.ndarray:
    return np.unique(c.table[column].to_numpy(), return_inverse=True)[1].reshape(-1)


def truth(c: Collection, factors: tuple[str, ...], noise: float = 0.1) -> np.ndarray:
    """One place for every value of each factor."""
    rng = np.random.default_rng(0)
    hot = [np.eye(n.max() + 1, dtype=np.float32)[n] for n in (codes(c, f) for f in factors)]
    return np.concatenate(hot, 1) + rng.normal(0, noise, (len(c), sum(h.shape[1] for h in hot))).astype(np.float32)


def finding(name: str, c: Collection, factors: tuple[str, ...], index: int = 0, **options):
    context = Context(c, features=truth(c, factors), budget=60, seconds=2, **options)
    with context.pinned():
        return registry.make("diagnoses", name).run(context)[index]


def still(name: str, settings: list[tuple[Collection, tuple[str, ...]]], within: float = 0.06, **options) -> None:
    """A diagnosis does not move with a knob that is none of its business."""
    found = [finding(name, c, factors, **options) for c, factors in settings]
    assert len({f.light for f in found}) == 1, [(f.light, f.sentence) for f in found]
    assert np.ptp([f.value for f in found]) <= within, [f.value for f in found]


def test_a_label_factor_that_changes_is_seen_by_cscc_alone():
    c = hf.world(crossed=True, values=5, glyph_values=5, copies=1)
    values, lights = [], []
    for label, factors in (
        ("colour", ("colour",)),
        ("", ("colour", "border")),
        ("", ("glyph", "colour", "ground", "border")),
    ):
        among = factors if len(factors) > 1 else ("colour", "border")
        f = finding(
            "cscc-frozen",
            c,
            factors,
            rule=lambda part, a=among, which=label: Crossed(part, 5, 3, 5, factors=a, label=which),
        )
        values.append(f.value)
        lights.append(f.light)
        assert (
            f.low <= f.value <= f.high
            and f.over_classes is not None
            and f.over_classes.low <= f.value <= f.over_classes.high
        )
    assert values[0] > 0.95 > 0.8 > values[1] > values[2]
    assert lights[0] == "red" and lights[2] == "green"
    # The collection itself is the same throughout: what looks at its table and images says one thing.
    still("columns", [(c, ("glyph",))] * 2, within=0)


@pytest.fixture(scope="module")
def grounds() -> list[Collection]:
    return [
        hf.world(ground=g, classes=20, images=32, train_contexts=8, splits=(0.5, 0.2, 0.3)) for g in (0.0, 0.5, 1.0)
    ]


def test_a_ground_that_follows_the_class_is_seen_in_the_context_alone(grounds):
    found = [finding("context-alone", c, ("glyph",), split="train") for c in grounds]
    a, b, d = (f.value for f in found)
    assert a == pytest.approx(0.2, abs=0.05) and 0.4 < b < 0.9 and d > 0.97
    assert [f.light for f in found] == ["green", "red", "red"]
    told = [finding("columns", c, ("glyph",), split="train").details["told_by_class"]["ground"] for c in grounds]
    assert told[0] < 0.1 < told[1] < told[2] == 1.0


def test_the_ground_moves_nothing_else(grounds):
    shown = [(c, ("glyph",)) for c in grounds]
    still("cscc-frozen", shown, split="train")
    still("structural-bias", shown, within=0)
    still("power", shown, within=0.01, split="train")
    still("imbalance", shown, within=0, split="train")
    still("duplicates", shown, within=0)


def test_the_ground_is_seen_in_borders_and_colours_of_the_images(grounds):
    shares = []
    for c in (grounds[0], grounds[2]):
        context = Context(c, net="pixels", budget=60, seconds=4, split="train")
        (f,) = registry.get("diagnoses", "shortcuts")().run(context)
        shares.append([f.details[v]["accuracy"]["value"] for v in ("border", "colour")])
        assert f.figure.startswith("<svg") and "borders alone" in f.alt
    (border, colour), (border_after, colour_after) = shares
    assert max(border, colour) < 0.3 and border_after > border + 0.04 and colour_after > colour + 0.25


@pytest.fixture(scope="module")
def copied() -> list[Collection]:
    return [hf.world(duplicates=d, classes=20, images=20, splits=(0.5, 0.2, 0.3)) for d in (0.0, 0.1, 0.4)]


def test_copies_across_splits_are_counted_as_planted(copied):
    for c, light in zip(copied, ("green", "red", "red"), strict=True):
        f = finding("duplicates", c, ("glyph", "colour", "ground", "border", "size", "place", "style"))
        assert f.name == "copies-across-splits" and f.light == light
        assert f.details["exact_copies"] == len(c.copies)
        assert f.value == pytest.approx(len(c.copies) / len(c.test), abs=0.02)
        assert f.low <= f.value <= f.high


def test_near_copies_are_found_by_the_perceptual_hash():
    c = hf.world(duplicates=0.4, near=True, classes=20, images=20, splits=(0.5, 0.2, 0.3))
    f = finding("duplicates", c, ("glyph",))
    assert f.details["exact_copies"] < 0.4 * len(c.copies)
    assert f.value > 0.8 * len(c.copies) / len(c.test)
    clean = finding("duplicates", hf.world(classes=20, images=20), ("glyph",))
    assert clean.value < 0.01


def test_copies_across_splits_move_nothing_else(copied):
    shown = [(c, ("glyph",)) for c in copied]
    still("cscc-frozen", shown)
    still("structural-bias", shown, within=0)
    still("context-alone", shown, within=0.06)
    still("overlap", shown, within=0)


def test_copies_inside_a_class_have_a_share_of_the_score():
    parts = []
    for repeats in (0.0, 0.3, 0.6):
        c = hf.world(repeats=repeats, classes=20, images=20, splits=(0.5, 0.1, 0.4))
        context = Context(c, features=truth(c, ("colour", "border")), budget=60, seconds=2)
        with context.pinned():
            (f,) = registry.get("diagnoses", "score-split")().run(context)
        share = {name: e["tasks"]["value"] for name, e in f.details["parts"].items()}
        assert sum(share.values()) == pytest.approx(f.details["score"]["value"], abs=1e-9)
        parts.append(share["copies in the support"])
    assert abs(parts[0]) < 0.01 and parts[0] + 0.03 < parts[1] < parts[2]


def pairs(tangled: float) -> tuple[Collection, np.ndarray]:
    """Pairs whose features are their primitives', or, as far as they are tangled, the pair's own."""
    c = hf.world(label="colour+glyph", classes=20, images=8)
    rng = np.random.default_rng(1)
    pair = np.unique(codes(c, "colour") * 10**4 + codes(c, "glyph"), return_inverse=True)[1].reshape(-1)
    own = rng.normal(0, 1, (pair.max() + 1, 40))[pair]
    return c, np.concatenate([(1 - tangled) * truth(c, ("colour", "glyph")), 0.3 * tangled * own], 1).astype(np.float32)


def test_unseen_pairs_cost_what_the_features_tangle():
    gaps, lights = [], []
    for tangled in (0.0, 0.5, 1.0):
        c, x = pairs(tangled)
        context = Context(c, features=x, budget=60, seconds=2)
        with context.pinned():
            (f,) = registry.get("diagnoses", "composition")().run(context)
        gaps.append(f.value)
        lights.append(f.light)
    # With primitives alone something is lost as well: the mean of a colour leans to the glyphs that it was seen with.
    assert gaps[0] < 0.1 and gaps[0] + 0.2 < gaps[1] < gaps[2]
    assert lights[0] != "red" and lights[2] == "red"


def test_pairs_that_are_missing_are_counted():
    filled = []
    for mask in (1.0, 0.6, 0.3):
        c = hf.world(label="colour+glyph", classes=24, images=8, mask=mask)
        filled.append(finding("composition", c, ("colour", "glyph")).details["filled"])
    assert filled == pytest.approx([1.0, 0.6, 0.3], abs=0.06)


def hierarchy(test_a_script: int, apart: bool) -> Collection:
    """Glyphs below their scripts, with so many test glyphs a script; ``apart`` keeps a script in one split."""
    w = hf.world(images=6, seed=3)
    table = w.table
    frame = table.select("glyph", "script").unique().sort("script", "glyph")
    frame = frame.filter(pl.len().over("script") >= 6).group_by("script", maintain_order=True).head(6)
    place = pl.int_range(pl.len()).over("script")
    script = pl.col("script").rank("dense")
    test = (script % 2 == 0) if apart else place < test_a_script
    frame = frame.select("glyph", pl.when(test).then(pl.lit("test")).otherwise(pl.lit("train")).alias("split"))
    table = table.drop("split").with_row_index("row").join(frame, on="glyph", how="inner").sort("row").drop("row")
    card = Card(
        "glyphs",
        "features",
        (1,),
        ("glyph",),
        schemes=("split",),
        context="ground",
        hash=f"{test_a_script}{apart}" * 30,
    )
    return Collection(card, table, np.zeros((len(table), 1), dtype=np.float32))


def test_a_trivial_hierarchy_is_seen_by_its_structure():
    far, usual, trivial = hierarchy(6, True), hierarchy(2, False), hierarchy(1, False)
    found = [finding("structural-bias", c, ("glyph",)) for c in (far, usual, trivial)]
    assert [f.value for f in found] == pytest.approx([2.0, 1.0, 0.5])
    assert [f.light for f in found] == ["green", "amber", "red"]
    assert found[2].details["trivial_bound"] == 1.0 > found[1].details["trivial_bound"]
    shown = [(c, ("glyph",)) for c in (far, usual, trivial)]
    still("cscc-frozen", shown)
    still("context-alone", shown, within=0.08)
