"""Packing writes the pixels that decoding gives, on any number of processes, or nothing at all."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from PIL import Image

from handful.data import decoding
from handful.data.images import decode
from handful.data.opening import open_collection
from handful.data.pack import pack
from handful.data.splits import ByFraction
from handful.errors import BadInput

from .conftest import MAIN, class_files, encoded, handful, noise, photo


def left(tmp_path):
    return sorted(p.name for p in tmp_path.iterdir() if p.name != "raw")


def test_pixels_labels_and_card_are_what_was_put_in(tree, tmp_path):
    files = class_files()
    done = pack(tree(files), tmp_path / "out", "folders", size=16, licence="CC0", version="7")
    found = done.collection
    assert found.card.labels == ("label",) and found.card.shape == (16, 16, 3) and found.card.licence == "CC0"
    assert found.id.startswith("raw@7/16#") and left(tmp_path) == ["out"]
    for row, (file, label) in enumerate(zip(found.table["file"], found.table["label"], strict=True)):
        assert label == file.split("/")[0]
        assert np.array_equal(found.read(np.array([row]))[0], decode(files[file], file, 16))


def test_workers_change_no_byte(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "ALONE", 1)
    monkeypatch.setattr(decoding, "CHUNK", 3)
    root = tree(class_files(classes=5, each=6))
    hashes = {pack(root, tmp_path / str(n), "folders", size=12, workers=n).collection.card.hash for n in (1, 2, 3)}
    assert len(hashes) == 1


def test_a_zip_packs_to_the_pixels_of_its_folder(tree, tmp_path):
    files = class_files()
    with zipfile.ZipFile(tmp_path / "raw.zip", "w") as out:
        for name, data in files.items():
            out.writestr(name, data)
    first = pack(tree(files), tmp_path / "a", "folders", size=16).collection
    second = pack(tmp_path / "raw.zip", tmp_path / "b", "folders", size=16).collection
    assert first.card.hash == second.card.hash


def test_turned_drawings_are_white_on_black_and_turned_anticlockwise(tree, tmp_path):
    paper = np.full((105, 105), 255, np.uint8)
    paper[:20, :20] = 0
    data = encoded(paper)
    root = tree(
        {"images_background/Latin/character01/1_01.png": data, "images_evaluation/Greek/character01/2_01.png": data}
    )
    found = pack(root, tmp_path / "out", "omniglot").collection
    assert found.card.shape == (28, 28, 1) and found.card.labels == ("alphabet", "character", "rotation")
    corners = {"rot000": (0, 0), "rot090": (-1, 0), "rot180": (-1, -1), "rot270": (0, -1)}
    for row in range(8):
        image = found.read(np.array([row]))[0, :, :, 0]
        assert image[corners[found.table["rotation"][row]]] == 255 and image[14, 14] == 0 and (image == 255).sum() > 15


def test_unreadable_files_are_named_and_nothing_is_written(tree, tmp_path):
    bad = {"c0/note.jpg": "plain text", "c1/cut.jpg": photo(1)[:400], "c2/empty.png": b""}
    root = tree({**class_files(), **bad})
    with pytest.raises(
        BadInput,
        match=r"3 unreadable files: c0/note.jpg is not an image; c1/cut.jpg is truncated; c2/empty.png is empty",
    ):
        pack(root, tmp_path / "out", "folders")
    assert left(tmp_path) == []


def test_skip_bad_leaves_them_out_and_keeps_labels_with_their_pixels(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "ALONE", 1)
    monkeypatch.setattr(decoding, "CHUNK", 4)
    files = class_files()
    root = tree({**files, "c0/00.jpg": "plain text", "c3/zz.jpg": photo(1)[:400]})
    done = pack(root, tmp_path / "out", "folders", size=20, skip_bad=True)
    assert [f for f, _ in done.skipped] == ["c0/00.jpg", "c3/zz.jpg"] and "2 unreadable files" in done.notes[-1]
    assert len(done.collection) == len(files)
    for row, file in enumerate(done.collection.table["file"]):
        assert np.array_equal(done.collection.read(np.array([row]))[0], decode(files[file], file, 20))


def test_skip_bad_with_nothing_good_is_refused(tree, tmp_path):
    with pytest.raises(BadInput, match="none of the 1 files"):
        pack(tree({"a/1.jpg": "text"}), tmp_path / "out", "folders", skip_bad=True)
    assert left(tmp_path) == []


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tree, tmp_path, monkeypatch):
    root = tree(class_files())

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    for place in ("os.posix_fallocate", "handful.data.pack.seal"):
        with monkeypatch.context() as patch:
            patch.setattr(place, full)
            with pytest.raises(BadInput, match=r"the disk that holds .* is full"):
                pack(root, tmp_path / "out", "folders")
        assert left(tmp_path) == []


@pytest.mark.parametrize("kilobytes", [100, 556])
def test_a_really_full_disk(tree, tmp_path, kilobytes):
    root, small = tree(class_files(classes=4, each=60)), tmp_path / "small"
    small.mkdir()
    if not shutil.which("unshare"):
        pytest.skip("needs unshare")
    script = (
        f"mount -t tmpfs -o size={kilobytes}k tmpfs '{small}' || exit 77; "
        f"'{sys.executable}' -c '{MAIN}' data pack '{root}' '{small}/out' --size 28; code=$?; ls -A '{small}'; exit $code"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, env=environment, timeout=600
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("needs the right to mount a small disk")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "is full" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_a_polite_kill_are_one_sentence_and_leave_nothing(tmp_path, number):
    (tmp_path / "raw" / "c").mkdir(parents=True)
    first = tmp_path / "raw" / "c" / "0.png"
    Image.fromarray(noise(0, 1500, 1500)).save(first, compress_level=1)
    for i in range(1, 1500):
        os.link(first, tmp_path / "raw" / "c" / f"{i}.png")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-c", MAIN, "data", "pack", str(tmp_path / "raw"), str(tmp_path / "out")]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    end = time.monotonic() + 600
    while not list(tmp_path.glob(".out-*/images.npy")) and time.monotonic() < end and process.poll() is None:
        time.sleep(0.02)
    time.sleep(0.3)
    assert process.poll() is None, process.communicate()
    os.killpg(process.pid, number)
    out, complaint = process.communicate(timeout=600)
    assert process.returncode == 2 and out == ""
    assert complaint.count("\n") == 1 and "stopped by the keyboard" in complaint
    assert left(tmp_path) == []


def test_a_dead_worker_is_a_sentence_and_leaves_nothing(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(decoding, "ALONE", 1)
    monkeypatch.setattr(decoding, "CHUNK", 2)
    root = tree(class_files())
    born = decoding.DecodeWorker.__init__

    def stillborn(self, plan):
        born(self, plan)
        self.process.kill()

    monkeypatch.setattr(decoding.DecodeWorker, "__init__", stillborn)
    with pytest.raises(BadInput, match="a decoding process died"):
        pack(root, tmp_path / "out", "folders", workers=2)
    assert left(tmp_path) == []


def test_an_existing_folder_is_not_overwritten(tree, tmp_path):
    root = tree(class_files())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    for force in (False, True):
        with pytest.raises(BadInput, match="out"):
            pack(root, tmp_path / "out", "folders", force=force)
        with pytest.raises(BadInput, match=r"thesis\.tex"):
            pack(root, tmp_path / "out" / "thesis.tex", "folders", force=force)
    pack(root, tmp_path / "new", "folders", size=8)
    assert pack(root, tmp_path / "new", "folders", size=9, force=True).collection.card.shape[0] == 9
    assert (tmp_path / "out" / "thesis.tex").read_text() == "years of work"
    with pytest.raises(BadInput, match="holds the source"):
        pack(root, tmp_path, "folders", force=True)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"size": 0}, "size must be"),
        ({"size": 100_000}, "size must be"),
        ({"importer": "folder"}, "did you mean folders"),
        ({"options": {"shape": 1}}, "has no option 'shape'"),
        (
            {"importer": "omniglot", "options": {"rotations": "four"}},
            "option rotations cannot be 'four'; give a whole number",
        ),
    ],
)
def test_wrong_options_are_refused(tree, tmp_path, options, message):
    with pytest.raises(BadInput, match=message):
        pack(tree(class_files()), tmp_path / "out", **{"importer": "folders", **options})
    assert left(tmp_path) == []


def test_a_raw_folder_opens_through_the_cache_until_it_changes(tree, tmp_path, monkeypatch):
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    root = tree(class_files())
    first = open_collection(root)
    assert open_collection(root).path == first.path and first.card.schemes == ("fraction",)
    (root / "c0" / "new.png").write_bytes(encoded(noise(9)))
    assert len(open_collection(root)) == len(first) + 1


def test_a_split_rule_comes_first(tree, tmp_path):
    files = {f"{s}/{k}": v for s, c in (("train", 3), ("test", 4)) for k, v in class_files(c, 2).items()}
    found = pack(tree(files), tmp_path / "out", "folders", size=8, split=ByFraction(scheme="mine")).collection
    assert found.card.schemes == ("mine", "split") and found.has("valid")


def test_pack_needs_no_guarded_main_module(tmp_path, tree):
    root = tree(class_files(classes=3, each=80))
    code = f"from handful.data.pack import pack; print(len(pack({str(root)!r}, {str(tmp_path / 'out')!r}, 'folders', workers=2).collection))"
    script = tmp_path / "raw" / "script.py"
    script.write_text(code)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, timeout=600)
    assert done.stdout == "240\n", done.stderr


def test_the_command_packs_and_answers_in_json(tree, tmp_path):
    done = handful(
        "data",
        "pack",
        tree(class_files(10, 3)),
        tmp_path / "out",
        "--as",
        "folders",
        "--size",
        8,
        "--grey",
        "--split-by",
        "count",
        "--json",
    )
    facts = json.loads(done.stdout)
    assert (
        done.returncode == 0 and facts["shape"] == [8, 8, 1] and facts["schemes"] == ["split"] and facts["images"] == 30
    )
