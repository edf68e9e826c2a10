"""Folders and zips read alike; hostile zips are refused."""

from __future__ import annotations

import os
import stat
import zipfile

import pytest

from handful.data import sources
from handful.data.sources import open_source
from handful.errors import BadInput


def zipped(path, files, mode=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", mode) as out:
        for name, content in files.items():
            out.writestr(name, content)
    return path


def test_a_zip_and_its_folder_list_and_read_the_same(tree, tmp_path):
    files = {
        "a/1.png": b"one",
        "a/2.txt": b"two",
        "b/3.JPG": b"three",
        "__MACOSX/a/._1.png": b"x",
        "a/.hidden.png": b"x",
    }
    folder, archive = open_source(tree(files)), open_source(zipped(tmp_path / "z.zip", files))
    assert folder.names == archive.names == ("a/1.png", "a/2.txt", "b/3.JPG")
    assert folder.images == archive.images == ["a/1.png", "b/3.JPG"]
    assert [folder.read(n) for n in folder.names] == [archive.read(n) for n in archive.names]


def test_zips_in_a_folder_without_images_are_read_as_folders(tree):
    root = tree({"notes.txt": b"hello"})
    zipped(root / "images.zip", {"images/1.png": b"one"})
    source = open_source(root)
    assert source.names == ("images.zip/images/1.png", "notes.txt")
    assert source.read("images.zip/images/1.png") == b"one"


def test_zips_beside_images_are_left_overs_and_said_so(tree):
    root = tree({"a/1.png": b"one"})
    zipped(root / "a.zip", {"a/1.png": b"one", "a/2.png": b"two"})
    source = open_source(root)
    assert source.images == ["a/1.png"]
    assert source.ignored == ("a.zip",)


@pytest.mark.parametrize("name", ["../up.png", "/etc/x.png", "a/../../x.png", "C:/x.png"])
def test_names_that_leave_the_zip_are_refused(tmp_path, name):
    path = zipped(tmp_path / "z.zip", {"fine.png": b"", name: b""})
    with pytest.raises(BadInput, match="points outside"):
        open_source(path)


def test_links_in_a_zip_are_refused(tmp_path):
    path = tmp_path / "z.zip"
    with zipfile.ZipFile(path, "w") as out:
        link = zipfile.ZipInfo("secret.png")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        out.writestr(link, "/etc/passwd")
    with pytest.raises(BadInput, match="symbolic link"):
        open_source(path)


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "FILE_CAP", 1 << 20)
    source = open_source(zipped(tmp_path / "z.zip", {"bomb.png": bytes(3 << 20)}))
    assert (tmp_path / "z.zip").stat().st_size < 1 << 14
    with pytest.raises(BadInput, match=r"bomb\.png unpacks to 3 MB"):
        source.read("bomb.png")


def test_a_bomb_that_lies_about_its_size_is_cut_short(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "FILE_CAP", 1 << 20)
    source = open_source(zipped(tmp_path / "z.zip", {"bomb.png": bytes(3 << 20)}))
    source._members["bomb.png"].file_size = 10
    with pytest.raises(BadInput, match=r"bomb\.png"):
        source.read("bomb.png")


def test_damage_inside_a_zip_names_the_member(tmp_path):
    path = zipped(tmp_path / "z.zip", {"a/1.png": b"x" * 500}, zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(BadInput, match=r"a/1\.png cannot be unpacked"):
        open_source(path).read("a/1.png")


def test_a_folder_that_links_to_itself_ends(tree):
    root = tree({"a/1.png": b"one"})
    (root / "a" / "again").symlink_to(root, target_is_directory=True)
    assert open_source(root).images == ["a/1.png"]


def test_a_pipe_named_like_an_image_is_passed_over(tree):
    root = tree({"a/1.png": b"one"})
    os.mkfifo(root / "a" / "2.png")
    assert open_source(root).images == ["a/1.png"]


@pytest.mark.parametrize("content", [b"hello", b""])
def test_what_is_neither_folder_nor_zip_is_refused(tmp_path, content):
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(BadInput, match=r"x\.zip is not a readable zip"):
        open_source(tmp_path / "x.zip")
    with pytest.raises(BadInput, match="does not exist"):
        open_source(tmp_path / "nowhere")


def test_the_fingerprint_sees_a_touched_file(tree):
    root = tree({"a/1.png": b"one", "a/2.png": b"two"})
    before = open_source(root).fingerprint()
    assert open_source(root).fingerprint() == before
    os.utime(root / "a" / "2.png", ns=(1, 1))
    assert open_source(root).fingerprint() != before
