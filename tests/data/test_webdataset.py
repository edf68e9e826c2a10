"""Shards of samples become rows with classes and splits; hostile tars and samples without a class are refused."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from handful.data.importers import guess
from handful.data.importers.webdataset import WebDataset
from handful.data.pack import pack
from handful.data.sources import open_source
from handful.errors import BadInput

from .conftest import encoded, handful, noise


def shard(path: Path, files: dict[str, bytes | str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as out:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
    return path


def samples(n: int, first: int = 0) -> dict[str, bytes | str]:
    made: dict[str, bytes | str] = {}
    for i in range(first, first + n):
        made |= {f"{i:05d}.png": encoded(noise(i, 12, 12)), f"{i:05d}.cls": str(i % 2)}
    return made


def test_shards_named_by_split_become_the_same_pixels_classes_and_splits(tmp_path):
    shard(tmp_path / "raw" / "train-000.tar", samples(4))
    shard(tmp_path / "raw" / "train-001.tar", samples(4, 4))
    shard(tmp_path / "raw" / "val" / "000.tar", samples(2, 20))
    (tmp_path / "raw" / "classnames.txt").write_text("owl\nelm\n")
    assert guess(open_source(tmp_path / "raw")) == "webdataset"
    packed = pack(tmp_path / "raw", tmp_path / "packed", size=12).collection
    assert packed.card.schemes == ("split",) and packed.train.class_names == ["elm", "owl"]
    np.testing.assert_array_equal(packed.read(packed.train.rows), np.stack([noise(i, 12, 12) for i in range(8)]))
    assert packed.table["label"][packed.valid.rows].to_list() == ["owl", "elm"]


def test_many_samples_of_one_tar_are_read_by_several_processes(tmp_path):
    shard(tmp_path / "shard.tar", samples(260))
    packed = pack(tmp_path / "shard.tar", tmp_path / "packed", "webdataset", size=12, workers=2).collection
    np.testing.assert_array_equal(packed.read(np.arange(260)), np.stack([noise(i, 12, 12) for i in range(260)]))


def test_a_field_of_the_json_is_the_class_and_the_others_are_kept(tmp_path):
    facts = {"species": "owl", "age": 3, "boxes": [1, 2]}
    shard(tmp_path / "a.tar", {"x/1.jpg": encoded(noise(0), "JPEG"), "x/1.json": json.dumps(facts)})
    source = open_source(tmp_path / "a.tar")
    item = WebDataset(label="species").read(source).items[0]
    assert item.columns == {"species": "owl", "age": "3", "label": "owl"}
    with pytest.raises(
        BadInput, match=r"1.json has the fields species, age; say which is the class: --set label=FIELD"
    ):
        WebDataset().read(source)
    with pytest.raises(BadInput, match="has no 'specis' that is text or a number; did you mean species"):
        WebDataset(label="specis").read(source)


def test_samples_with_several_images_are_asked_about(tmp_path):
    image = encoded(noise(0))
    shard(tmp_path / "a.tar", {"1.jpg": image, "1.mask.png": image, "1.txt": "owl"})
    with pytest.raises(BadInput, match="one of 2 images of its sample; say which: --set image=jpg"):
        WebDataset().read(open_source(tmp_path))
    assert WebDataset(image="mask.png").read(open_source(tmp_path)).items[0].file == "a.tar/1.mask.png"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"1.jpg": "x"}, "1.jpg has no class; put one beside it as .cls, .txt or .json"),
        ({"1.jpg": "x", "1.cls": " "}, "1.cls is empty"),
        ({"1.jpg": "x", "1.json": "[1"}, "1.json is not JSON"),
        ({"1.cls": "1"}, "holds no tar with images in it"),
        ({"../1.jpg": "x", "1.cls": "1"}, "points outside the tar"),
        ({"/etc/1.jpg": "x"}, "points outside the tar"),
    ],
)
def test_broken_shards_are_refused(tmp_path, files, said):
    shard(tmp_path / "a.tar", files)
    ended = handful("data", "pack", tmp_path / "a.tar", tmp_path / "out", "--as", "webdataset")
    assert ended.returncode == 2 and said in ended.stderr and not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(tmp_path, kind):
    with tarfile.open(tmp_path / "a.tar", "w") as out:
        info = tarfile.TarInfo("1.jpg")
        info.type, info.linkname = kind, "/etc/passwd"
        out.addfile(info)
    with pytest.raises(BadInput, match="is no plain file"):
        open_source(tmp_path / "a.tar")


def test_tars_that_are_compressed_cut_off_or_claim_too_much_are_refused(tmp_path, monkeypatch):
    whole = shard(tmp_path / "a.tar", samples(2)).read_bytes()
    (tmp_path / "a.tar").write_bytes(gzip.compress(whole))
    with pytest.raises(BadInput, match="not a readable tar without compression"):
        open_source(tmp_path / "a.tar")
    (tmp_path / "a.tar").write_bytes(whole[:600])
    with pytest.raises(BadInput, match="cut off|not a readable tar"):
        open_source(tmp_path / "a.tar").read("00000.png")
    monkeypatch.setattr("handful.data.sources.FILE_CAP", 100)
    (tmp_path / "a.tar").write_bytes(whole)
    with pytest.raises(BadInput, match=r"00000.png is larger than"):
        open_source(tmp_path / "a.tar").read("00000.png")
    monkeypatch.setattr("handful.data.sources.MEMBERS_CAP", 3)
    with pytest.raises(BadInput, match="lists more than 3 members"):
        open_source(tmp_path / "a.tar")


def test_class_folders_in_a_tar_are_read_as_in_a_zip(tmp_path):
    shard(tmp_path / "birds.tar", {"owl/1.png": encoded(noise(0)), "wren/1.png": encoded(noise(1))})
    assert guess(open_source(tmp_path / "birds.tar")) == "folders"
    assert pack(tmp_path / "birds.tar", tmp_path / "out", size=8).collection.table["label"].to_list() == ["owl", "wren"]
