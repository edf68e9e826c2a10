"""Getting from one's own files, going on after a cut, verifying later."""

from __future__ import annotations

import pytest

from handful.data.get import get, verify
from handful.data.get.web import Patience
from handful.errors import BadInput, Missing

from .layouts import omniglot_manifest
from .server import honest, leaves

CALM = Patience(stall=30, tries=2, pause=0)


def test_from_takes_files_or_a_folder_and_asks_for_what_lacks(shop, tmp_path):
    path = omniglot_manifest(shop, tmp_path)
    mine = tmp_path / "mine"
    mine.mkdir()
    for file in ("images_background.zip", "images_evaluation.zip"):
        (mine / file).write_bytes(shop.files[f"/{file}"])
    got = get("omniglot", tmp_path / "a", source=[mine], manifest=path)
    with pytest.raises(Missing, match="also needs images_evaluation.zip"):
        get("omniglot", tmp_path / "b", source=[mine / "images_background.zip"], manifest=path)
    (mine / "images_evaluation.zip").rename(mine / "download (1).zip")
    both = [mine / "images_background.zip", mine / "download (1).zip"]
    assert get("omniglot", tmp_path / "c", source=both, manifest=path).collection.card.hash == got.collection.card.hash
    (mine / "other.zip").write_bytes(b"PK\x03\x04 something")
    with pytest.raises(BadInput, match="none of the archives"):
        get("omniglot", tmp_path / "d", source=[mine / "other.zip"], manifest=path)
    assert not shop.asked, "with --from nothing is asked of the network"


def test_a_cut_get_resumes_and_keeps_the_archives_it_had(shop, tmp_path):
    path = omniglot_manifest(shop, tmp_path)
    shop.behaviours["/images_evaluation.zip"] = leaves(3000)
    with pytest.raises(Missing, match=r"404.*run the same command again.*--from FILE"):
        get("omniglot", tmp_path / "here", manifest=path, patience=CALM)
    shop.behaviours["/images_evaluation.zip"] = honest
    got = get("omniglot", tmp_path / "here", manifest=path, patience=CALM)
    assert shop.ranges("images_background.zip") == [None]
    assert shop.ranges("images_evaluation.zip")[-1] == "bytes=3000-"
    assert len(got.record.archives) == 2


def test_verify_reads_every_byte_again(shop, tmp_path):
    path = omniglot_manifest(shop, tmp_path)
    here = tmp_path / "here"
    get("omniglot", here, manifest=path, patience=CALM)
    assert [f.ok for f in verify(here, manifest=path)] == [True] * 3
    file = here / "archives" / "images_background.zip"
    data = bytearray(file.read_bytes())
    data[1000] ^= 1
    file.write_bytes(bytes(data))
    images = here / "packed" / "images.npy"
    pixels = bytearray(images.read_bytes())
    pixels[-1] ^= 1
    images.write_bytes(bytes(pixels))
    findings = verify(here, manifest=path)
    assert [f.ok for f in findings] == [False, True, False]
    assert "not the published" in findings[0].sentence and "bytes have changed" in findings[2].sentence
    shop.asked.clear()
    get("omniglot", here, manifest=path, patience=CALM)
    assert [p for p, _ in shop.asked] == ["/images_background.zip"], "only what is wrong is fetched again"
    assert [f.ok for f in verify(here, manifest=path)] == [True] * 3


def test_a_folder_of_another_data_set_is_not_mixed(shop, tmp_path):
    path = omniglot_manifest(shop, tmp_path)
    get("omniglot", tmp_path / "here", manifest=path, patience=CALM, pack=False)
    with pytest.raises(BadInput, match="holds omniglot"):
        get("cub", tmp_path / "here", source=[tmp_path])
