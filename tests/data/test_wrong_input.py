"""Wrong input at the command line: one sentence on stderr, exit code 2, nothing written."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from handful.data.collection import open_packed
from handful.data.store import seal
from handful.errors import BadInput
from made.patterns import blobs

from .conftest import class_files, encoded, handful, noise, photo

P = encoded(noise(0))


def refused(done, *words: str) -> None:
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stderr.count("\n") == 1 and done.stdout == "", (done.stdout, done.stderr)
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize(
    "files, layout, words",
    [
        ({}, "folders", ["holds no images"]),
        ({"a/1.png": P, "a/note.jpg": "text"}, "folders", ["a/note.jpg is not an image", "--skip-bad"]),
        ({"a/1.png": P, "a/cut.jpg": photo(0)[:500]}, "folders", ["a/cut.jpg is truncated"]),
        (
            {"1.png": P, "t.csv": "filename,kind\n1.png,a\n"},
            "csv:labels=label",
            ["t.csv has no column 'label'", "known: kind"],
        ),
        ({"1.png": P, "t.csv": "filename,label\n1.png,a\n2.png,b\n"}, "csv", ["line 3", "2.png does not exist"]),
        ({"1.png": P, "t.csv": b"filename,label\n1.png,\xff\n"}, "csv", ["line 2", "0xff is not UTF-8"]),
        (
            {"images/1.png": P, "images/2.png": P, "labels.csv": "FILE_NAME,CATEGORY\n1.png,a\n"},
            "meta-album",
            ["1 of 2 images, not 2.png"],
        ),
    ],
)
def test_raw_images_that_cannot_be_packed(tree, tmp_path, files, layout, words):
    root = tree(files)
    root.mkdir(exist_ok=True)
    name, _, option = layout.partition(":")
    refused(
        handful("data", "pack", root, tmp_path / "out", "--as", name, *(["--set", option] if option else [])), *words
    )
    assert [p.name for p in tmp_path.iterdir()] == ["raw"]


def test_classes_of_one_image_are_packed_and_pointed_out_but_serve_no_task(tree, tmp_path):
    root = tree({f"c{c}/1.png": encoded(noise(c)) for c in range(6)})
    assert handful("data", "pack", root, tmp_path / "out", "--size", 8).returncode == 0
    assert "6 classes with one image can be in no task: c0, c1" in handful("data", "check", tmp_path / "out").stdout
    from handful.data.collection import open_packed
    from handful.errors import Infeasible
    from handful.tasks.nway import NWay

    with pytest.raises(Infeasible, match=r"too small: c0 \(1\)"):
        NWay(open_packed(tmp_path / "out").whole, 5, 1, 1).check()


def test_changed_bytes_are_noticed(tmp_path):
    packed = blobs(n_classes=6, each=4, size=8).save(tmp_path / "x").path
    data = bytearray((packed / "images.npy").read_bytes())
    data[-1] ^= 1
    (packed / "images.npy").write_bytes(data)
    for verb in ("check", "stats", "show"):
        refused(handful("data", verb, packed), "the bytes have changed since it was packed")


def test_changed_bytes_under_an_old_time_stamp_are_noticed_by_check(tmp_path):
    import os

    packed = blobs(n_classes=6, each=4, size=8).save(tmp_path / "x").path
    status = (packed / "images.npy").stat()
    data = bytearray((packed / "images.npy").read_bytes())
    data[-1] ^= 1
    (packed / "images.npy").write_bytes(data)
    os.utime(packed / "images.npy", ns=(status.st_atime_ns, status.st_mtime_ns))
    refused(handful("data", "check", packed), "the bytes have changed")


def test_a_label_table_shorter_than_the_images(tmp_path):
    whole = blobs(n_classes=6, each=4, size=8).save(tmp_path / "x")
    seal(tmp_path / "x", whole.card, whole.table.head(20))
    with pytest.raises(BadInput, match="20 rows of labels for 24 images"):
        open_packed(tmp_path / "x")
    refused(handful("data", "stats", tmp_path / "x"), "20 rows of labels for 24 images")


def test_a_broken_card_and_a_missing_array(tmp_path):
    blobs(n_classes=6, each=4, size=8).save(tmp_path / "x")
    (tmp_path / "x" / "images.npy").rename(tmp_path / "aside.npy")
    refused(handful("data", "check", tmp_path / "x"), "lacks images.npy")
    (tmp_path / "x" / "card.json").write_text("{")
    refused(handful("data", "check", tmp_path / "x"), "is not the card of a packed collection")


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["pack", "nowhere", "out"], ["nowhere does not exist"]),
        (["pack", "raw", "out", "--as", "foldres"], ["did you mean folders"]),
        (["pack", "raw", "out", "--fractions", "1,2"], ["need --split-by"]),
        (["pack", "raw", "out", "--split-by", "size"], ["not by 'size'"]),
        (["pack", "raw", "out", "--split-by", "fraction", "--fractions", "a,b,c"], ["three numbers"]),
        (["pack", "raw", "out", "--split-by", "file"], ["needs --split-file"]),
        (["pack", "raw", "out", "--set", "x"], ["not key=value"]),
        (["split", "raw"], ["card"]),
        (["stats", "nowhere"], ["neither a folder nor a known collection"]),
        (["stats", "raw", "--scheme", "mine"], ["no split scheme 'mine'"]),
        (["show", "raw", "--split", "exam"], ["'exam'"]),
    ],
)
def test_wrong_arguments(tree, tmp_path, arguments, words):
    tree(class_files())
    refused(handful("data", *arguments, cwd=tmp_path), *words)
    assert [p.name for p in tmp_path.iterdir()] == ["raw"]


def test_split_show_and_stats_work_at_the_command_line(tmp_path):
    blobs(n_classes=20, each=4, size=8).save(tmp_path / "x")
    done = handful(
        "data",
        "split",
        tmp_path / "x",
        "--by",
        "fraction",
        "--fractions",
        "0.5,0.25,0.25",
        "--scheme",
        "mine",
        "--json",
    )
    facts = json.loads(done.stdout)
    assert {r["split"]: r["classes"] for r in facts["by_split"]} == {"train": 10, "valid": 5, "test": 5}
    assert pl.read_parquet(tmp_path / "x" / "labels.parquet").columns[-1] == "mine"
    assert handful("data", "show", tmp_path / "x", "--split", "test", "--out", tmp_path / "s.png").returncode == 0
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
    done = handful("data", "stats", tmp_path / "x", "--figure", tmp_path / "h.svg", "--out", tmp_path / "tables")
    assert done.returncode == 0 and "by_split" in done.stdout and (tmp_path / "h.svg").is_file()
    assert sorted(p.name for p in (tmp_path / "tables").iterdir())[0] == "by_class.csv"


def test_images_read_the_same_after_a_split(tmp_path):
    before = np.array(blobs(n_classes=20, each=4, size=8).save(tmp_path / "x").read(np.arange(80)))
    handful("data", "split", tmp_path / "x", "--by", "count")
    assert np.array_equal(open_packed(tmp_path / "x", verify=True).read(np.arange(80)), before)


@pytest.mark.parametrize("kind", ["png", "tif", "gif", "webp"])
def test_an_image_that_claims_gigabytes_is_left_out_or_refused_by_every_verb(tree, tmp_path, kind):
    """It is refused by what its header says; scripts/fuzz reads such files under a limit of memory."""
    from fuzz.reads_images import KNOWN

    files: dict[str, bytes | str] = {f"{c}/{i}.png": encoded(noise(10 * c + i)) for c in range(2) for i in range(4)}
    bomb = next(iter(KNOWN[kind].values()))({})[f"image.{kind}"]
    root = tree({**files, f"0/bomb.{kind}": bomb})
    refused(handful("data", "pack", root, tmp_path / "out"), f"bomb.{kind} has", "million")
    assert f"bomb.{kind}" in handful("data", "check", root).stdout
    done = handful("fit", root, "--out", tmp_path / "model", "--net", "pixels")
    assert done.returncode == 0 and f"bomb.{kind}" in done.stdout + done.stderr
    done = handful("predict", tmp_path / "model", root / "0" / f"bomb.{kind}", root / "1" / "1.png")
    assert f"bomb.{kind}" in done.stdout + done.stderr and "1.png" in done.stdout
    done = handful("audit", root, "--minutes", "0.02", "--only", "duplicates", "--out", tmp_path / "a.html")
    assert done.returncode == 0 and (tmp_path / "a.html").is_file(), done.stderr
