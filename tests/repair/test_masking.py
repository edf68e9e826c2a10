"""A repaired collection is a mask over the same images, with an id of its own, opened like any other."""

from __future__ import annotations

import json
import pickle

import numpy as np
import polars as pl
import pytest

import handful as hf
from handful.audits.context import Context
from handful.data.collection import Collection
from handful.data.splits import ByFraction, add_scheme
from handful.errors import BadInput, Infeasible, Mismatch
from handful.repair.kinds import Entry
from handful.repair.masking import masked
from handful.repair.plan import Plan
from handful.repair.repair import apply, kept, undone


def entry(action: str, rows=(), **more) -> Entry:
    return Entry("duplicates", action, "a reason", "a measure", 1.0, tuple(rows), **more)


@pytest.fixture()
def packed(tmp_path) -> Collection:
    return hf.world(classes=12, images=8, size=12).save(tmp_path / "packed")


def test_rows_left_out_are_gone_and_the_others_show_the_same_pixels(packed, tmp_path):
    fixed = apply(packed, Plan(packed.id, "", [entry("drop", [0, 5])]), tmp_path / "fixed")
    left = np.setdiff1d(np.arange(len(packed)), [0, 5])
    assert len(fixed) == len(packed) - 2 and (fixed.read(np.arange(len(fixed))) == packed.read(left)).all()
    assert fixed.table["glyph"].to_list() == packed.table["glyph"][left].to_list()
    assert fixed.id != packed.id and fixed.test.id != packed.test.id
    assert not (tmp_path / "fixed" / "images.npy").exists()
    again = hf.open(tmp_path / "fixed")
    assert again.id == fixed.id and pickle.loads(pickle.dumps(again)).id == fixed.id
    assert hf.open(packed.path).id == packed.id


def test_moves_weights_and_the_rule_are_kept_and_the_old_splits_stay(packed, tmp_path):
    train = packed.train.members[0]
    rule = {"rule": "balanced", "ways": 2, "shots": 1, "queries": 1, "contexts": 0}
    steps = [entry("move", train, to="test"), entry("weigh", train, weight=0.25), entry("draw", rule=rule)]
    fixed = apply(packed, Plan(packed.id, "", steps), tmp_path / "fixed")
    assert fixed.card.schemes == ("repaired", "split")
    assert (
        fixed.test.n_classes == packed.test.n_classes + 1
        and fixed.part("test", "split").n_classes == packed.test.n_classes
    )
    assert set(fixed.table["weight"][train].to_list()) == {0.25} and fixed.table["weight"].max() == 1.0
    assert fixed.rule == rule and type(Context(fixed, net="pixels").tasks()).name == "balanced"
    lines = (tmp_path / "fixed" / "episodes.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["collection"] == fixed.id and len(lines) == 601


def test_what_is_only_listed_changes_nothing(packed, tmp_path):
    steps = [entry("drop", [1], confirm=False), entry("name", [2])]
    fixed = apply(packed, Plan(packed.id, "", steps), tmp_path / "fixed")
    assert fixed.id == packed.id and len(fixed) == len(packed)


def test_undo_takes_back_one_kind_or_all(packed, tmp_path):
    steps = [entry("drop", [1]), Entry("labels", "drop", "why", "m", 0.9, (2,))]
    one = apply(packed, Plan(packed.id, "", steps), tmp_path / "fixed")
    assert len(undone(tmp_path / "fixed", ["labels"])) == len(one) + 1
    assert undone(tmp_path / "fixed").id == packed.id
    assert [e.confirm for e in Plan.read(tmp_path / "fixed" / "plan.toml").entries] == [False, False]
    with pytest.raises(BadInput, match="not made by handful repair"):
        undone(packed.path)


def test_a_repair_of_a_repair_lies_over_the_images_themselves(packed, tmp_path):
    first = apply(packed, Plan(packed.id, "", [entry("drop", [0])]), tmp_path / "one")
    second = apply(first, Plan(first.id, "", [entry("drop", [0])]), tmp_path / "two")
    assert second.mask.tolist() == list(range(2, len(packed))) and second.over.id == packed.id


def test_drawn_collections_are_repaired_without_being_written(tmp_path):
    world = hf.world(classes=6, images=4, size=12)
    fixed = apply(world, Plan(world.id, "", [entry("drop", [3])]), tmp_path / "fixed")
    assert (hf.open(tmp_path / "fixed").read(np.array([3])) == world.read(np.array([4]))).all() and len(fixed) == 23


def test_what_no_longer_fits_is_refused(packed, tmp_path):
    apply(packed, Plan(packed.id, "", [entry("drop", [0])]), tmp_path / "fixed")
    with pytest.raises(BadInput, match="is a mask over"):
        add_scheme(tmp_path / "fixed", ByFraction())
    np.save(tmp_path / "fixed" / "rows.npy", np.arange(len(packed) - 1))
    with pytest.raises(BadInput, match="has changed since"):
        hf.open(tmp_path / "fixed")
    np.save(tmp_path / "fixed" / "rows.npy", np.array([3, 1]))
    with pytest.raises(BadInput, match="no rising list"):
        hf.open(tmp_path / "fixed")
    facts = json.loads((tmp_path / "fixed" / "over.json").read_text())
    (tmp_path / "fixed" / "over.json").write_text(
        json.dumps({**facts, "source": str(tmp_path / "fixed"), "beside": "."})
    )
    np.save(tmp_path / "fixed" / "rows.npy", np.arange(1, len(packed)))
    with pytest.raises(BadInput, match="is a mask itself"):
        hf.open(tmp_path / "fixed")


def test_the_images_behind_a_mask_must_be_those_it_was_made_over(packed, tmp_path):
    apply(packed, Plan(packed.id, "", [entry("drop", [0])]), tmp_path / "fixed")
    add_scheme(packed.path, ByFraction(seed=5))
    with pytest.raises(BadInput, match="repair that collection again"):
        hf.open(tmp_path / "fixed")


def test_a_plan_that_leaves_nothing_or_is_of_another_collection_is_refused(packed, tmp_path):
    with pytest.raises(Infeasible, match="leaves no image"):
        masked(packed, [entry("drop", range(len(packed)))])
    with pytest.raises(Mismatch, match="the plan is for"):
        apply(packed, Plan("other@1/1#0", "", []), tmp_path / "fixed")
    with pytest.raises(BadInput, match="names image 10000"):
        apply(packed, Plan(packed.id, "", [entry("drop", [10000])]), tmp_path / "fixed")
    with pytest.raises(BadInput, match="holds the images themselves"):
        apply(packed, Plan(packed.id, "", []), packed.path, force=True)
    assert not (tmp_path / "fixed").exists()


def test_images_to_keep_are_named_by_row_or_file(packed):
    named = Collection(
        packed.card,
        packed.table.with_columns(pl.Series("file", [f"a/{i}.png" for i in range(len(packed))])),
        packed.array,
    )
    assert kept(named, ["3", "a/7.png", "labels"]) == ({3, 7}, {"labels"})
    with pytest.raises(BadInput, match="'b.png' to keep is neither"):
        kept(named, ["b.png"])


def test_a_plan_is_read_as_it_was_written(packed, tmp_path):
    odd = 'a "quoted" \\ name\nwith é, 😀 and \x7f'
    steps = [
        Entry("labels", "drop", odd, "p", 0.75, (1, 2), False, facts={"suggested": odd}),
        Entry("contexts", "draw", "why", "m", 0.5, rule={"rule": "balanced", "ways": 3}),
        Entry("shortcuts", "weigh", "why", "m", 0.5, (3,), weight=0.125),
    ]
    made = Plan(packed.id, "somewhere", steps, {"seed": 3, "net": "pixels"}, {"splits": "none"}, ["a note"])
    again = Plan.read(made.save(tmp_path / "plan.toml", packed))
    assert again == made


@pytest.mark.parametrize(
    "line, said",
    [
        ('kind = "duplicate"', "did you mean 'duplicates'|duplicates"),
        ('action = "delete"', "there is no action 'delete'"),
        ("rows = [1, true]", "rows must be a list of image numbers"),
        ("weight = 0.0", "weight must be above 0"),
        ('confirm = "yes"', "confirm must be true or false"),
        ("colour = 1", "'colour', which is no part"),
        ('action = "move"\nto = "tset"', "moves images to 'tset'"),
    ],
)
def test_a_plan_that_is_edited_wrongly_says_where(tmp_path, line, said):
    given = {"kind": '"duplicates"', "action": '"drop"'}
    for one in line.splitlines():
        key, _, value = one.partition(" = ")
        given[key] = value
    text = 'handful = "plan"\ncollection = "x"\n[[repair]]\n' + "\n".join(f"{k} = {v}" for k, v in given.items())
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(BadInput, match=f"repair 1.*({said})"):
        Plan.read(tmp_path / "plan.toml")
