"""A stranger's archive cannot write outside its folder, fill the disk, or print escapes."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from handful.challenge.archive import ArchiveLimits, clean_name, pack_folder, root_of, unpack, weights_in
from handful.errors import BadInput


def make(path: Path, entries: dict[str, bytes], modes: dict[str, int] | None = None) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in entries.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (modes or {}).get(name, stat.S_IFREG | 0o644) << 16
            target.writestr(info, data)
    return path


def test_regular_files_come_out_readable_and_not_executable(tmp_path):
    archive = make(tmp_path / "a.zip", {"model.py": b"x = 1", "sub/w.txt": b"w"}, {"model.py": stat.S_IFREG | 0o4777})
    got = unpack(archive, tmp_path / "out")
    assert got.files == ("model.py", "sub/w.txt") and got.total_bytes == 6 and len(got.sha256) == 64
    assert stat.S_IMODE((tmp_path / "out/model.py").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("../evil.py", "climbs"),
        ("a/../../evil.py", "climbs"),
        ("/etc/evil", "absolute"),
        ("C:/evil", "absolute"),
        ("a\\..\\evil", "backslash"),
        ("\x1b[31mred.py", "control"),
        ("/".join("abcdefghijklmnopqrst"), "too deep"),
        ("x" * 300, "too"),
    ],
)
def test_paths_that_leave_or_deceive_are_refused(tmp_path, name, word):
    archive = make(tmp_path / "a.zip", {"model.py": b"", name: b"evil"})
    with pytest.raises(BadInput, match=word):
        unpack(archive, tmp_path / "deep/out")
    assert not (tmp_path / "deep/out").exists() and not (tmp_path / "deep/out.partial").exists()
    assert not (tmp_path / "evil.py").exists()


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_links_and_special_entries_are_refused(tmp_path, kind):
    archive = make(tmp_path / "a.zip", {"model.py": b"", "link": b"/etc/passwd"}, {"link": kind | 0o777})
    with pytest.raises(BadInput, match="link or special"):
        unpack(archive, tmp_path / "out")


def test_a_bomb_is_stopped_while_it_is_written(tmp_path):
    archive = make(tmp_path / "a.zip", {"model.py": b"", "bomb": b"\0" * (8 << 20)})
    assert archive.stat().st_size < 1 << 16
    with pytest.raises(BadInput, match="unpacks to more"):
        unpack(archive, tmp_path / "out", ArchiveLimits(total_bytes=1 << 20))
    assert list(tmp_path.iterdir()) == [archive]


def test_a_bomb_that_lies_about_its_size_is_stopped_too(tmp_path):
    archive = make(tmp_path / "a.zip", {"bomb": b"\0" * (8 << 20)})
    raw = bytearray(archive.read_bytes())
    real = (8 << 20).to_bytes(4, "little")
    raw[:] = raw.replace(real, (10).to_bytes(4, "little"))
    archive.write_bytes(raw)
    with pytest.raises(BadInput):
        unpack(archive, tmp_path / "out", ArchiveLimits(total_bytes=1 << 20))
    assert not (tmp_path / "out").exists()


def test_many_small_files_are_a_bomb_as_well(tmp_path):
    archive = make(tmp_path / "a.zip", {f"f{i}": b"" for i in range(50)})
    with pytest.raises(BadInput, match="50 entries"):
        unpack(archive, tmp_path / "out", ArchiveLimits(entries=49))
    with pytest.raises(BadInput, match="50 entries, more than 2"):
        unpack(archive, tmp_path / "out", ArchiveLimits(entries=2))
    many = make(tmp_path / "b.zip", {f"f{i}": bytes(1 << 16) for i in range(50)})
    with pytest.raises(BadInput, match="unpacks to more"):
        unpack(many, tmp_path / "out", ArchiveLimits(total_bytes=1 << 20))


@pytest.mark.parametrize("names", [("Model.py", "model.py"), ("a", "a/b"), ("a/b", "a")])
def test_two_entries_of_one_name_are_refused(tmp_path, names):
    with pytest.raises(BadInput):
        unpack(make(tmp_path / "a.zip", dict.fromkeys(names, b"x")), tmp_path / "out")


def test_exact_duplicates_are_refused(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as target:
        target.writestr("model.py", "a")
        with pytest.warns(UserWarning):
            target.writestr("model.py", "b")
    with pytest.raises(BadInput, match="two entries"):
        unpack(path, tmp_path / "out")


def test_what_is_not_a_zip_is_named(tmp_path):
    for data in (b"", b"PK\x03\x04garbage", b"not a zip at all" * 100):
        (tmp_path / "a.zip").write_bytes(data)
        with pytest.raises(BadInput, match="not a zip"):
            unpack(tmp_path / "a.zip", tmp_path / "out")
    make(tmp_path / "big.zip", {"a": b"x" * 100})
    with pytest.raises(BadInput, match="larger than"):
        unpack(tmp_path / "big.zip", tmp_path / "out", ArchiveLimits(archive_bytes=10))


def test_a_corrupt_entry_leaves_nothing(tmp_path):
    archive = make(tmp_path / "a.zip", {"model.py": bytes(range(256)) * 100})
    raw = bytearray(archive.read_bytes())
    raw[60:80] = b"\xff" * 20
    archive.write_bytes(raw)
    with pytest.raises(BadInput):
        unpack(archive, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_model_is_found_at_the_top_or_in_the_one_folder(tmp_path):
    unpack(make(tmp_path / "a.zip", {"mine/model.py": b"", "__MACOSX/x": b"", "mine/.DS_Store": b""}), tmp_path / "out")
    assert root_of(tmp_path / "out") == tmp_path / "out/mine"
    unpack(make(tmp_path / "b.zip", {"readme": b""}), tmp_path / "out2")
    with pytest.raises(BadInput, match=r"model\.py"):
        root_of(tmp_path / "out2")


def test_weights_are_found_by_suffix_by_size_and_by_content(tmp_path):
    (tmp_path / "model.py").write_text("x = 1\n")
    assert weights_in(tmp_path) == []
    (tmp_path / "a.safetensors").write_bytes(b"x")
    (tmp_path / "big.txt").write_bytes(b"a" * (2 << 20))
    (tmp_path / "hidden.dat").write_bytes(bytes(10000))
    assert weights_in(tmp_path) == ["a.safetensors", "big.txt", "hidden.dat"]


def test_packing_twice_gives_the_same_bytes_and_skips_links(tmp_path):
    folder = tmp_path / "s"
    folder.mkdir()
    (folder / "model.py").write_text("x = 1\n")
    (folder / "link").symlink_to("/etc/passwd")
    one = pack_folder(folder, tmp_path / "1.zip").read_bytes()
    assert one == pack_folder(folder, tmp_path / "2.zip").read_bytes()
    assert unpack(tmp_path / "1.zip", tmp_path / "out").files == ("model.py",)


def test_names_are_cleaned_of_escapes_and_direction_marks():
    assert clean_name("\x1b]0;title\x07a\u202eb\n c\x9b31m") == "]0;titleab c31m"
    assert len(clean_name("x" * 1000)) == 80


def test_a_table_of_contents_declared_in_the_zip64_record_is_not_read_into_memory(tmp_path):
    import struct
    import tracemalloc

    # The old record says that the table is empty; the zip64 record, which is the one believed, says 40 MB.
    size = 40 << 20
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, size, 0)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, size, 1)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, 0, 0, 0)
    archive = tmp_path / "a.zip"
    archive.write_bytes(bytes(size) + record + locator + end)
    tracemalloc.start()
    with pytest.raises(BadInput):
        unpack(archive, tmp_path / "out")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 << 20
