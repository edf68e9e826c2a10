"""Splits never share a class; counts, fractions and files say which class goes where."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from handful.data.collection import Card, Collection, as_table, open_packed
from handful.data.splits import ByCount, ByFile, ByFraction, add_scheme, class_overlaps
from handful.errors import BadInput
from made.patterns import blobs

# Images a concept of MetaCoCo, as its Table 4 prints them.
TRAIN = """5820 4915 4397 4365 4035 4004 3980 3953 3873 3787 3755 3726 3612 3519 3491 3454 3393 3208 3080 3031 2994 2581 2578
2499 2470 2312 2310 2293 2215 2184 2115 2038 2017 2002 2001 1976 1943 1892 1877 1862 1859 1835 1815 1801 1770 1751 1729 1723
1703 1672 1619 1588 1548 1499 1491 1466 1451 1182 1155 1141 1072 1026 993 864"""
VALID = "437 434 431 430 420 381 379 362 357 347 340 329 317 314 312 249"
TEST = "857 841 774 763 719 703 661 630 620 552 546 541 540 531 530 506 497 490 483 482"


def test_the_split_by_count_is_metacocos_own():
    truth = {
        f"{s}{i}": (s, int(n))
        for s, t in (("train", TRAIN), ("valid", VALID), ("test", TEST))
        for i, n in enumerate(t.split())
    }
    assert len(truth) == 100
    found = ByCount().assign({name: n for name, (_, n) in sorted(truth.items())})
    assert found == {name: split for name, (split, _) in truth.items()}


@pytest.mark.parametrize("n", [3, 4, 7, 10, 25, 99, 100, 1000])
def test_fractions_give_every_split_its_share(n):
    found = list(ByFraction(seed=n).assign({f"c{i}": 1 for i in range(n)}).values())
    counts = {s: found.count(s) for s in ("train", "valid", "test")}
    assert sum(counts.values()) == n and min(counts.values()) >= 1
    if n >= 25:
        assert all(abs(counts[s] - f * n) < 1 for s, f in (("train", 0.64), ("valid", 0.16), ("test", 0.2)))


def test_a_seed_fixes_the_split_and_another_changes_it():
    names = {f"c{i}": 1 for i in range(50)}
    assert ByFraction(seed=1).assign(names) == ByFraction(seed=1).assign(dict(reversed(names.items())))
    assert ByFraction(seed=1).assign(names) != ByFraction(seed=2).assign(names)


@pytest.mark.parametrize("shares", [(0.5, 0.5, 0.5), (-0.1, 0.6, 0.5), (float("nan"), 0.5, 0.5)])
def test_fractions_that_do_not_sum_to_one_are_refused(shares):
    with pytest.raises(BadInput, match="sum to 1"):
        ByFraction(train=shares[0], valid=shares[1], test=shares[2]).assign({f"c{i}": 1 for i in range(10)})


def test_too_few_classes_are_refused():
    with pytest.raises(BadInput, match="2 classes cannot be split in 3"):
        ByFraction().assign({"a": 1, "b": 1})


def test_a_scheme_is_added_to_a_packed_collection_and_survives_reopening(tmp_path):
    before = blobs(n_classes=20, each=4, size=8).save(tmp_path / "packed")
    after = add_scheme(tmp_path / "packed", ByFraction(scheme="mine", seed=3))
    again = open_packed(tmp_path / "packed", verify=True)
    assert again.card.schemes == ("mine", "split") and again.id == after.id != before.id
    assert np.array_equal(again.read(np.arange(80)), before.read(np.arange(80)))
    overlap = class_overlaps(again.table["dataset"] + "/" + again.table["kind"], again.table["mine"])
    assert overlap.height == 0 and again.train.n_classes == 13
    assert sorted(p.name for p in (tmp_path / "packed").iterdir()) == [
        "card.json",
        "images.npy",
        "labels.parquet",
        "verified.json",
    ]


def test_a_failed_write_leaves_the_old_scheme(tmp_path, monkeypatch):
    blobs(n_classes=20, each=4, size=8).save(tmp_path / "packed")
    id_before = open_packed(tmp_path / "packed").id

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("handful.data.splits.content_hash", full)
    with pytest.raises(OSError):
        add_scheme(tmp_path / "packed", ByFraction(scheme="mine"))
    assert open_packed(tmp_path / "packed", verify=True).id == id_before


def test_whole_columns_can_be_kept_together():
    rows = [(f"alphabet{a}", f"character{c}") for a in range(10) for c in range(5) for _ in range(2)]
    table = as_table({"alphabet": [r[0] for r in rows], "character": [r[1] for r in rows]})
    card = Card("x", "images", (1, 1, 1), ("alphabet", "character"))
    card, table = ByFraction(on=("alphabet",)).apply(card, table)
    assert class_overlaps(table["alphabet"], table["split"]).height == 0
    assert Collection(card, table).train.n_classes == 30


def test_classes_of_one_name_in_two_data_sets_are_two_classes():
    table = as_table({"dataset": ["a", "b"] * 10, "label": [f"c{i // 2}" for i in range(20)]})
    assert len(ByCount().apply(Card("x", "images", (1, 1, 1), ("label",)), table)[1].unique(["dataset", "label"])) == 20


@pytest.mark.parametrize("form", ["json", "csv", "txt"])
def test_a_split_file_is_obeyed_in_each_form(tmp_path, form):
    want = {"a/x": "train", "a/y": "valid", "b/x": "test"}
    path = tmp_path / f"splits.{form}"
    if form == "json":
        path.write_text(json.dumps({"train": ["a/x"], "val": ["a/y"], "test": ["b/x"]}))
    elif form == "csv":
        path.write_text("one,two,split\na,x,train\na,y,val\nb,x,test\nb,y,\n")
    else:
        path = tmp_path
        for name, text in (("train", "a/x\n"), ("val", "a/y\n"), ("test", "b/x\n"), ("readme", "no split")):
            (tmp_path / f"{name}.txt").write_text(text)
    table = as_table({"one": list("aabb"), "two": list("xyxy")})
    _, table = ByFile(path=str(path)).apply(Card("x", "images", (1, 1, 1), ("one", "two")), table)
    assert table["split"].to_list() == [*want.values(), ""]


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"train": ["c1"], "test": ["c1"]}', "c1 is in train and in test"),
        ('{"train": ["c9"]}', "no class 'c9'"),
        ('{"trian": ["c1"]}', "'trian' is not a split"),
        ('["c1"]', "must look like"),
        ("not json", "neither JSON"),
        ("{}", "names no classes"),
    ],
)
def test_a_wrong_split_file_is_refused_in_a_sentence(tmp_path, text, message):
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(BadInput, match=message):
        ByFile(path=str(tmp_path / "s.json")).assign({"c1": 5, "c2": 5})


def test_overlaps_are_seen():
    found = class_overlaps(
        pl.Series(["a", "a", "b", "b", "c", "c"]), pl.Series(["train", "test", "train", "train", "train", "test_seen"])
    )
    assert found.rows() == [("a", ["test", "train"])]
