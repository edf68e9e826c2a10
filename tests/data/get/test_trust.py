"""What is trusted: first use, the user's own files, buckets, the manifest; and one process at a time."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from handful.data.get.download import download, take
from handful.data.get.lock import locked
from handful.data.get.manifest import Archive, read_manifest
from handful.errors import BadInput, Missing

from .parcel import BODY, CALM, SHA, archive, bare, get
from .server import bucket, corrupt, page


def test_what_came_first_is_what_must_come_again(shop, tmp_path):
    first = get(bare(shop.put("a.zip", BODY)), tmp_path)
    assert first.checked == "first-use"
    other = b"PK\x03\x04" + bytes(5000)
    shop.put("a.zip", other)
    url = shop.put("a.zip", other)
    with pytest.raises(Missing, match="as when it was first got"):
        download(bare(url), tmp_path / "b.zip", CALM, before=first)
    assert get(bare(url), tmp_path, before=first, verify=False).checked == "unverified"


def test_file_addresses_are_copied_and_judged_too(tmp_path):
    place = tmp_path / "elsewhere" / "with space.zip"
    place.parent.mkdir()
    place.write_bytes(BODY)
    assert get(archive(place.as_uri()), tmp_path).checked == "sha256"
    place.write_bytes(BODY[:-1] + b"x")
    with pytest.raises(Missing, match="not the published"):
        download(archive(place.as_uri()), tmp_path / "b.zip", CALM)
    with pytest.raises(Missing, match="cannot be read"):
        download(archive((tmp_path / "none.zip").as_uri()), tmp_path / "b.zip", CALM)


def test_a_bucket_is_asked_what_it_holds(shop, tmp_path):
    shop.put("datasets/0004/44285/BRD_Mini.zip", BODY)
    shop.put("datasets", bucket({"0004/44285/dataset_44285.pq": b"x", "0004/44285/BRD_Mini.zip": BODY}))
    listing = f"http://127.0.0.1:{shop.server_address[1]}/datasets?list-type=2&prefix=0004%2F44285%2F"
    done = get(Archive("BRD_Mini.zip", listings=(listing,)), tmp_path)
    assert done.checked == "md5-of-server" and done.sha256 == SHA
    with pytest.raises(Missing, match=r"lists BRD_Mini.zip, not DOG_Mini.zip"):
        download(Archive("DOG_Mini.zip", listings=(listing,)), tmp_path / "b.zip", CALM)
    shop.behaviours["/datasets/0004/44285/BRD_Mini.zip"] = corrupt
    with pytest.raises(Missing, match="as its server says"):
        download(Archive("BRD_Mini.zip", listings=(listing,)), tmp_path / "b.zip", CALM)
    shop.behaviours["/datasets"] = page()
    with pytest.raises(Missing, match="not a bucket's listing"):
        download(Archive("BRD_Mini.zip", listings=(listing,)), tmp_path / "b.zip", CALM)


def test_an_archive_of_the_users_is_held_to_the_same_checksum(tmp_path):
    mine = tmp_path / "mine.zip"
    mine.write_bytes(BODY)
    done = take(archive(), mine, tmp_path / "a.zip")
    assert done.checked == "sha256" and (tmp_path / "a.zip").read_bytes() == BODY
    mine.write_bytes(BODY[:-1] + b"\0")
    with pytest.raises(BadInput, match=r"mine.zip has sha256 .*--no-verify"):
        take(archive(), mine, tmp_path / "b.zip")
    assert not (tmp_path / "b.zip").exists()
    assert take(archive(), mine, tmp_path / "b.zip", verify=False).checked == "unverified"
    mine.write_bytes(b"<html>please log in</html>")
    with pytest.raises(BadInput, match="web page"):
        take(archive(), mine, tmp_path / "b.zip")


def test_a_disk_without_room_is_told_before_anything_is_fetched(shop, tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(total=1, used=1, free=1000))
    with pytest.raises(BadInput, match=r"a\.zip needs 0 MB, but the disk .* 0 MB free; .*--to"):
        download(archive(shop.put("a.zip", BODY)), tmp_path / "a.zip", CALM)
    assert not shop.asked


HOLD = """
import sys
from pathlib import Path
from types import SimpleNamespace
from handful.data.get.lock import locked
with locked(Path(sys.argv[1])):
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_two_gets_at_once_do_not_mix_and_a_killed_one_leaves_no_lock(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        try:
            assert other.stdout.readline().strip() == "ready"
            with pytest.raises(BadInput, match=rf"another process \({other.pid}\)"), locked(tmp_path):
                pass
        finally:
            other.kill()
            other.wait(60)
    with locked(tmp_path):
        pass


def test_the_manifest_says_only_what_is_known():
    known = read_manifest()
    for name in ("omniglot", "cifar-fs", "cub"):
        entry = known.find(name)
        needed = [a for a in entry.archives if not a.optional]
        assert all(a.sha256 and a.size and len(a.urls) >= 2 for a in needed), name
    assert {a.checksum is not None for a in known.find("wordnet").archives} == {True, False}
    albums = [n for n in known.sized if n.startswith("meta-album") and "-set" not in n]
    assert len(albums) == 30
    numbers = [a.listings[0] for n in albums for e in known.sized[n].values() for a in e.archives]
    assert len(numbers) == len(set(numbers)) == 30 * 3 - 3
    assert all(a.checksum is None and len(a.listings) == 2 for n in albums for a in known.find(n).archives)
    assert [len(known.find(f"meta-album-set{i}", "micro").archives) for i in range(3)] == [10, 10, 10]
    assert "prefix=0004%2F44285%2F" in known.find("Meta-Album/BRD").archives[0].listings[0]
    assert known.find("meta-album-brd:micro") == known.find("meta-album-brd", "micro") != known.find("meta-album-brd")
    assert "prefix=0004%2F44336%2F" in known.find("meta-album-plt-doc", "extended").archives[0].listings[0]


@pytest.mark.parametrize(
    "text, told",
    [
        ("[x]\ntitle='t'\nlayout='csv'\n[[x.archive]]\nfile='../a.zip'\nurls=[]", "relative path"),
        ("[x]\ntitle='t'\nlayout='csv'\n[[x.archive]]\nfile='a.zip'\nurls=['ftp://h/a']", "not http, https or file"),
        ("[x]\ntitle='t'\nlayout='csv'\n[[x.archive]]\nfile='a.zip'\nsha256='abc'", "64 lower-case"),
        ("[x]\ntitle='t'\nlayout='csv'\n[[x.archive]]\nfile='a.zip'\nshasum='abc'", "unknown key"),
        ("[x]\ntitle='t'", "not complete"),
        ("[x", "not valid TOML"),
    ],
)
def test_a_broken_manifest_is_one_sentence(tmp_path, text, told):
    (tmp_path / "m.toml").write_text(text)
    with pytest.raises(BadInput, match=told):
        read_manifest(tmp_path / "m.toml")


def test_unknown_names_and_sizes_get_the_nearest():
    known = read_manifest()
    with pytest.raises(BadInput, match="did you mean omniglot"):
        known.find("omniglott")
    with pytest.raises(BadInput, match="comes in one size"):
        known.find("cub", "mini")
    with pytest.raises(BadInput, match="comes in micro, mini"):
        known.find("meta-album-md-6", "extended")
