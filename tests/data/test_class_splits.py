"""Class lists survive the disk, wrong ones are named, and recomputed splits are told from published ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from handful.data.class_splits import ClassSplit, held_out, hops, read_classes, read_split, write_classes
from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput, Infeasible, Missing


def test_lists_are_written_and_read(tmp_path: Path) -> None:
    file = write_classes(tmp_path / "a.txt", ["n2", "n1"])
    assert read_classes(file) == ["n2", "n1"]
    file.write_text("# comment\nn2 # zebra\n\nn1\n")
    assert read_classes(file) == ["n2", "n1"]
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("a\nb\na\n", "line 3: a repeats line 1"), ("a b\n", "line 1: expected one class id"), ("\n", "no class id")],
)
def test_wrong_lists_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(BadInput, match=message):
        read_classes(tmp_path / "a.txt")
    with pytest.raises(Missing):
        read_classes(tmp_path / "absent.txt")


def test_overlap_and_unknown_ids_are_named(toy: Taxonomy, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"1 classes are in train and in test \(horse\)"):
        ClassSplit("x", ("horse", "tv"), ("zebra", "horse")).check(toy)
    with pytest.raises(BadInput, match=r"test: 1 not in .* \(n99\)"):
        ClassSplit("x", ("horse",), ("n99",)).check(toy)
    with pytest.raises(BadInput, match="no test class"):
        ClassSplit("x", ("horse",), ()).check(toy)
    with pytest.raises(BadInput, match="tv is listed twice in test"):
        ClassSplit("x", ("horse",), ("tv", "tv")).check(toy)
    train, test = write_classes(tmp_path / "train.txt", ["horse"]), write_classes(tmp_path / "mine.txt", ["zebra"])
    assert read_split(train, test, toy).label == "mine (as listed)"


def test_hops_count_undirected_steps(toy: Taxonomy) -> None:
    everything = toy.ids.tolist()
    assert hops(toy, ["horse"], everything, 1) == ("equine",)
    assert hops(toy, ["horse"], everything, 2) == ("equine", "thing", "zebra")
    assert set(hops(toy, ["horse"], everything, None)) == set(everything) - {"horse"}


def test_published_sizes_and_recomputed_splits(nouns: Taxonomy, splits: dict[str, list[str]]) -> None:
    sizes = {"train": 1000, "1-hop": 1549, "2-hops": 7860, "all": 20842, "goz_v1": 500}
    assert {name: len(ids) for name, ids in splits.items()} == sizes
    made = {
        n: hops(nouns, splits["train"], splits["all"] + splits["train"], k)
        for n, k in {"1-hop": 1, "2-hops": 2, "all": None}.items()
    }
    assert len(set(splits["1-hop"]) - set(made["1-hop"])) == 1 and len(made["1-hop"]) == 1548
    # The published 2-hops list holds 1,878 classes that are farther than two steps, up to twelve.
    assert len(made["2-hops"]) == 5990 and len(set(splits["2-hops"]) - set(made["2-hops"])) == 1878
    assert set(made["all"]) == set(splits["all"])


def test_held_out_images_are_per_class_and_repeatable() -> None:
    labels = np.repeat(["a", "b", "c"], [5, 6, 7])
    marked = held_out(labels, ["a", "b"], 2, seed=3)
    assert [int(marked[labels == c].sum()) for c in "abc"] == [2, 2, 0]
    assert np.array_equal(marked, held_out(labels, ["b", "a"], 2, seed=3))
    with pytest.raises(Infeasible, match="a has 5 images"):
        held_out(labels, ["a"], 5, seed=0)
