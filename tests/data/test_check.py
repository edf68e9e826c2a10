"""Planted faults are found, named and counted; a clean collection has none."""

from __future__ import annotations

import json
import shutil

import numpy as np
import polars as pl
import pytest

from handful.data.check import check, check_collection
from handful.data.collection import Card, Collection, as_table
from handful.data.stats import heat_map, save_figure, stats
from handful.errors import BadInput
from made.patterns import blobs

from .conftest import class_files, encoded, handful, noise, photo


def kinds(found):
    return [f.kind for f in found.findings]


def test_a_clean_collection_has_only_notes_on_what_fits():
    found = check_collection(blobs())
    assert set(kinds(found)) == {"note"} and found.ok and not found.duplicates.height


def test_planted_copies_within_and_across_splits_are_found():
    clean = blobs(n_classes=12, each=10)
    images = np.array(clean.array)
    first = {s: int(np.flatnonzero(clean.table["split"].to_numpy() == s)[0]) for s in ("train", "valid", "test")}
    images[first["train"] + 1] = images[first["train"]]
    images[first["test"]] = images[first["valid"]]
    found = check_collection(Collection(clean.card, clean.table, images))
    groups = found.duplicates.group_by("group").agg(pl.col("image").sort())["image"].to_list()
    assert sorted(groups) == sorted([[first["train"], first["train"] + 1], [first["valid"], first["test"]]])
    assert [f.sentence for f in found.findings if f.kind == "leak"] == [
        "1 image of exact pixels in several splits of 'split': test+valid 1"
    ]
    assert "1 of the groups under different classes" in str(found)


def test_a_class_in_two_splits_is_a_leak_but_held_out_images_are_not():
    clean = blobs(n_classes=6, each=4)
    leaky = clean.table.with_columns(split=pl.Series(["train", "train", "test", "test"] * 6))
    assert check_collection(Collection(clean.card, leaky, clean.array)).overlaps.height == 6
    seen = clean.table.with_columns(split=pl.Series(["train", "train", "test_seen", "test_seen"] * 6))
    assert not check_collection(Collection(clean.card, seen, clean.array)).overlaps.height


def test_feasible_numbers_are_the_order_statistics_of_class_sizes():
    sizes = [1, 3, 20, 20, 40, 41]
    labels = [f"c{c}" for c, n in enumerate(sizes) for _ in range(n)]
    images = np.random.default_rng(0).integers(0, 256, (len(labels), 2, 2, 3)).astype(np.uint8)
    found = check_collection(
        Collection(Card("x", "images", (2, 2, 3), ("label",)), as_table({"label": labels}), images)
    )
    assert found.feasible.select("ways", "images", "shots").rows() == [(2, 40, 25), (5, 3, None), (6, 1, None)]
    assert "1 class with one image can be in no task: c0" in str(found)


def test_raw_faults_are_named(tree):
    root = tree({**class_files(), "c0/x.jpg": "text", "c1/y.jpg": photo(3)[:300], "README.md": "hello"})
    shutil.copy(root / "c0" / "0.png", root / "c3" / "copy.png")
    found = check(root)
    assert found.unreadable.rows() == [("c0/x.jpg", "is not an image"), ("c1/y.jpg", "is truncated")]
    assert not found.ok and found.images == 21
    assert found.duplicates["file"].to_list() == ["c0/0.png", "c3/copy.png"]
    assert any("README.md" in s for s in found.sentences)


def test_copies_are_seen_through_another_file_format(tree):
    pixels = noise(5)
    found = check(tree({"a/1.png": encoded(pixels), "a/2.bmp": encoded(pixels, "BMP"), "b/3.png": encoded(noise(6))}))
    assert found.duplicates["file"].to_list() == ["a/1.png", "a/2.bmp"]


def test_check_leaves_with_two_on_faults_and_answers_in_json(tree):
    root = tree({**class_files(), "c0/x.jpg": "text"})
    done = handful("data", "check", root, "--json")
    assert done.returncode == 2 and json.loads(done.stdout)["unreadable"] == [
        {"file": "c0/x.jpg", "reason": "is not an image"}
    ]
    (root / "c0" / "x.jpg").unlink()
    assert handful("data", "check", root).returncode == 0


def grid() -> Collection:
    counts = {("dog", "grass"): 5, ("dog", "snow"): 2, ("cat", "grass"): 3, ("owl", "night"): 4}
    rows = [pair for pair, n in counts.items() for _ in range(n)]
    split = {"dog": "train", "cat": "valid", "owl": "test"}
    table = as_table(
        {"concept": [r[0] for r in rows], "context": [r[1] for r in rows], "split": [split[r[0]] for r in rows]}
    )
    images = np.zeros((len(rows), 2, 2, 3), np.uint8)
    return Collection(
        Card("zoo", "images", (2, 2, 3), ("concept",), schemes=("split",), context="context"), table, images
    )


def test_the_three_tables_of_a_concept_context_collection():
    found = stats(grid())
    assert found.summary.rows() == [("zoo", 3, 1, 1, 1, 14, 7, 3, 4, 3)]
    assert found.by_class.rows() == [("train", "dog", 7), ("valid", "cat", 3), ("test", "owl", 4)]
    assert found.grid is not None and found.grid.columns == ["context", "dog", "cat", "owl"]
    assert found.grid.rows() == [("grass", 5, 3, 0), ("night", 0, 0, 4), ("snow", 2, 0, 0)]
    assert found.by_context is not None and found.by_context.rows()[0] == ("grass", 8, 2)


def test_the_heat_map_shows_the_counts_and_is_saved(tmp_path):
    figure = heat_map(stats(grid()))
    shown = figure.axes[0].images[0].get_array()
    assert shown.filled(0).tolist() == [[5, 3, 0], [0, 0, 4], [2, 0, 0]]
    save_figure(figure, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(BadInput, match=r"\.png, \.svg or \.pdf"):
        save_figure(figure, tmp_path / "x.gif")


def test_no_heat_map_without_contexts():
    plain = Collection(
        Card("x", "images", (1,), ("label",)), as_table({"label": ["a", "b"]}), np.zeros((2, 1), np.uint8)
    )
    with pytest.raises(BadInput, match="no context column"):
        heat_map(stats(plain))


@pytest.mark.real
def test_real_pacs_counts(shared, tmp_path):
    from handful.data.importers.concept_context import ConceptContext
    from handful.data.pack import label_table
    from handful.data.sources import open_source

    listing = ConceptContext().read(open_source(shared / "pacs"))
    card = Card("pacs", "images", (), listing.labels, context="context")
    found = stats(Collection(card, label_table(listing, np.arange(len(listing.items)))))
    assert found.by_context is not None
    # Li et al., Deeper, Broader and Artier Domain Generalization, ICCV 2017
    assert dict(found.by_context.select("context", "images").rows()) == {
        "photo": 1670,
        "art_painting": 2048,
        "cartoon": 2344,
        "sketch": 3929,
    }
