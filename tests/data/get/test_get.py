"""Whole paths: an archive in a public layout is got from a server, verified, packed, opened and drawn from."""

from __future__ import annotations

import json

import numpy as np
import pytest

from data.conftest import encoded, handful, noise
from handful.cache import datasets_folder
from handful.data.get import get, verify
from handful.data.get.cifar import SPLIT_OF
from handful.data.get.manifest import read_manifest
from handful.data.get.record import read_record
from handful.data.get.web import Patience
from handful.data.importers.omniglot import Omniglot
from handful.data.opening import open_collection
from handful.data.sources import open_source
from handful.data.wordnet import find, wordnet
from handful.errors import BadInput, Missing
from handful.tasks import NWay

from . import layouts
from .layouts import manifest, omniglot_manifest
from .server import bucket, corrupt

CALM = Patience(stall=30, tries=2, pause=0)


def draw(collection, ways: int = 3, shots: int = 1, queries: int = 2):
    task = NWay(collection.part("test"), ways, shots, queries)
    episode = task.draw(0, 0)
    assert task.read(episode).support.images.shape == (ways * shots, *collection.card.shape)
    return episode


def test_omniglot_from_a_server_to_a_task(shop, tmp_path):
    got = get("omniglot", tmp_path / "here", manifest=omniglot_manifest(shop, tmp_path), patience=CALM)
    assert got.collection.card.shape == (28, 28, 1) and got.collection.card.licence == "MIT"
    assert len(got.collection) == 3 * 6 * 6 * 4 and [a.checked for a in got.record.archives] == ["sha256"] * 2
    names = draw(got.collection).names[0]
    assert all(n.startswith("Keble/") for n in names)
    assert open_collection(tmp_path / "here").id == got.collection.id
    asked = len(shop.asked)
    again = get("omniglot", tmp_path / "here", manifest=tmp_path / "omniglot.toml", patience=CALM)
    assert again.collection.id == got.collection.id and len(shop.asked) == asked, "nothing is fetched or packed twice"


def test_the_cache_is_found_by_name(shop, tmp_path, monkeypatch):
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    with pytest.raises(Missing, match="handful data get omniglot"):
        open_collection("omniglot")
    got = get("omniglot", manifest=omniglot_manifest(shop, tmp_path), patience=CALM)
    assert got.folder == datasets_folder() / "omniglot"
    assert open_collection("omniglot").id == got.collection.id


def test_cifar_fs_has_the_published_split_and_the_very_pixels(shop, tmp_path):
    data, pixels, fine = layouts.cifar()
    url = shop.put("cifar-100-binary.tar.gz", data)
    path = manifest(
        tmp_path, "cifar-fs", "cifar-fs", [("cifar-100-binary.tar.gz", [url], layouts.facts(data))], "pixels = 32"
    )
    got = get("cifar-fs", tmp_path / "here", manifest=path, patience=CALM)
    table = got.collection.table
    assert len(got.collection) == 500 and got.collection.card.shape == (32, 32, 3)
    of_split = {s: set(table.filter(table["split"] == s)["label"]) for s in ("train", "valid", "test")}
    assert {s: len(v) for s, v in of_split.items()} == {"train": 64, "valid": 16, "test": 20}
    assert {"whale", "poppy", "rocket", "woman"} <= of_split["test"] and {"beaver", "tractor"} <= of_split["valid"]
    assert dict(zip(table["label"], table["superclass"], strict=True))["maple_tree"] == "trees"
    order = [int(f.rpartition("-")[2][:5]) for f in table["file"]]
    train = (table["cifar_half"] == "train").to_numpy()
    images = got.collection.read(np.flatnonzero(train))
    places = np.asarray(order)[train]
    np.testing.assert_array_equal(images, pixels[places])
    assert [layouts.FINE[f] for f in fine[places]] == table["label"].to_numpy()[train].tolist()
    draw(got.collection)
    assert not (tmp_path / "here" / "raw").exists()


def test_xlsa17s_archive_becomes_features_with_attributes_and_the_proposed_split(shop, tmp_path):
    data = layouts.xlsa17()
    url = shop.put("xlsa17.zip", data)
    path = manifest(tmp_path, "xlsa17-cub", "xlsa17-cub", [("xlsa17.zip", [url], layouts.facts(data))])
    for _ in range(2):
        got = get("xlsa17-cub", tmp_path / "here", manifest=path, patience=CALM)
        assert len(got.collection) == 24 and got.collection.card.shape == (5,)
        assert got.collection.card.schemes[0] == "proposed" and not (tmp_path / "here" / "raw").exists()
        assert [got.collection.part(s).n_classes for s in ("train", "valid", "test", "test_seen")] == [3, 1, 2, 4]
        assert (got.source / "descriptions.npz").is_file()
    assert read_manifest(None).find("xlsa17-cub", None).layout == "xlsa17-cub"
    sun = manifest(tmp_path, "xlsa17-sun", "xlsa17-sun", [("xlsa17.zip", [url], layouts.facts(data))])
    with pytest.raises(BadInput, match=r"holds no SUN/res101\.mat"):
        get("xlsa17-sun", tmp_path / "there", manifest=sun, patience=CALM)


def test_cub_has_the_split_of_a_closer_look(shop, tmp_path):
    data = layouts.cub()
    url = shop.put("CUB_200_2011.tgz", data)
    path = manifest(tmp_path, "cub", "cub", [("CUB_200_2011.tgz", [url], layouts.facts(data))])
    got = get("cub", tmp_path / "here", manifest=path, patience=CALM)
    table = got.collection.table
    split = dict(zip(table["number"], table["split"], strict=True))
    # Counted from zero: 0 2 4 ... train, 1 5 9 ... validation, 3 7 11 ... test.
    assert [split[f"{n:03d}"] for n in (1, 2, 3, 4, 5, 6, 7, 8)] == [
        "train",
        "valid",
        "train",
        "test",
        "train",
        "valid",
        "train",
        "test",
    ]
    assert len(got.collection) == 16 * 5 and got.collection.card.shape == (84, 84, 3)
    draw(got.collection)


def test_meta_album_from_a_bucket_one_data_set_or_a_set(shop, tmp_path):
    albums = {"BRD": layouts.album("BRD"), "INS_2": layouts.album("INS_2")}
    base = f"http://127.0.0.1:{shop.server_address[1]}"
    for number, (name, data) in zip((44285, 44292), albums.items(), strict=True):
        shop.put(f"b{number}/datasets/0004/{number}/{name.replace('_', '')}_Mini.zip", data)
    held = {
        f"0004/{n}/{k.replace('_', '')}_Mini.zip": d for n, (k, d) in zip((44285, 44292), albums.items(), strict=True)
    }

    def answer(handler, data):
        prefix = handler.path.partition("prefix=")[2].partition("&")[0].replace("%2F", "/")
        body = bucket({k: d for k, d in held.items() if k.startswith(prefix)})
        handler.start(200, Content_Type="application/xml", Content_Length=len(body))
        handler.wfile.write(body)

    shop.put("datasets", b"", answer)
    for key, data in held.items():
        shop.put(f"datasets/{key}", data)
    text = f"[meta-album]\ntitle='M'\nlayout='meta-album'\nbuckets=['{base}/nothing', '{base}/datasets']\n"
    path = tmp_path / "m.toml"
    path.write_text(text + "[meta-album.set0]\nBRD=[1, 44285]\nINS_2=[2, 44292]\n")
    got = get("meta-album-brd", tmp_path / "one", manifest=path, patience=CALM)
    assert got.record.archives[0].checked == "md5-of-server"
    assert len(got.collection) == 40 and set(got.collection.table["dataset"]) == {"BRD"}
    assert got.collection.card.schemes == ("fraction",) and got.collection.card.shape == (128, 128, 3)
    draw(got.collection, ways=2)
    both = get("meta-album-set0", tmp_path / "both", size="mini", manifest=path, patience=CALM)
    assert set(both.collection.table["dataset"]) == {"BRD", "INS_2"} and len(both.collection) == 80
    with pytest.raises(Missing, match="lists no zip, not BRD_Micro.zip"):
        get("meta-album-brd", tmp_path / "micro", size="micro", manifest=path, patience=CALM)


@pytest.mark.parametrize("kind", ["princeton", "nltk"])
def test_wordnet_from_either_archive_is_found_afterwards(shop, tmp_path, monkeypatch, kind):
    monkeypatch.setenv("HANDFUL_CACHE", str(tmp_path / "cache"))
    for variable in ("HANDFUL_WORDNET", "WNSEARCHDIR", "WNHOME"):
        monkeypatch.delenv(variable, raising=False)
    tar, zipped = layouts.tarred(layouts.wordnet()), layouts.zipped(layouts.wordnet("wordnet"))
    urls = {"wordnet.zip": ["http://127.0.0.1:9/x.zip"], "WNdb-3.0.tar.gz": [shop.put("w.tar.gz", tar)]}
    if kind == "nltk":
        urls["wordnet.zip"] = [shop.put("w.zip", zipped)]
    path = manifest(tmp_path, "wordnet", "wordnet", [(f, u, "") for f, u in urls.items()], "any = true")
    got = get("wordnet", manifest=path, patience=Patience(5, 1, 0))
    assert got.collection is None and len(got.record.archives) == 1
    assert any("no checksum is published" in n for n in got.notes)
    assert find() == datasets_folder() / "wordnet" / "dict" / "data.noun"
    known = wordnet()
    assert len(known) == 3 and known.words("n00001930") == ["physical entity"]
    assert [f.ok for f in verify("wordnet", manifest=path)] == [True]


def test_another_wordnet_is_refused_and_leaves_nothing(shop, tmp_path):
    data = layouts.tarred(layouts.wordnet(version="2.1"))
    path = manifest(tmp_path, "wordnet", "wordnet", [("WNdb-3.0.tar.gz", [shop.put("w.tar.gz", data)], "")])
    with pytest.raises(BadInput, match=r"WordNet 2\.1"):
        get("wordnet", tmp_path / "here", manifest=path, patience=CALM)
    assert not (tmp_path / "here" / "dict").exists()


@pytest.mark.parametrize(
    "files, links, told",
    [
        ({"../CUB_200_2011/images/001.A/a.jpg": b"x"}, {}, "points outside"),
        ({"/CUB_200_2011/images/001.A/a.jpg": b"x"}, {}, "points outside"),
        ({}, {"CUB_200_2011/images/001.A/a.jpg": "/etc/passwd"}, "not a plain file"),
        ({"README": b"x"}, {}, "holds no CUB_200_2011/images"),
    ],
)
def test_a_hostile_or_wrong_tar_is_refused(tmp_path, files, links, told):
    (tmp_path / "CUB_200_2011.tgz").write_bytes(layouts.tarred(files, links))
    with pytest.raises(BadInput, match=told):
        get("cub", tmp_path / "here", source=[tmp_path / "CUB_200_2011.tgz"], verify=False)
    assert not (tmp_path / "here" / "packed").exists()


def test_a_tar_that_ends_early_is_one_sentence(tmp_path):
    (tmp_path / "CUB_200_2011.tgz").write_bytes(layouts.cub()[:20_000])
    with pytest.raises(BadInput, match="not a readable tar|ends inside"):
        get("cub", tmp_path / "here", source=[tmp_path / "CUB_200_2011.tgz"], verify=False)


def test_the_pickled_cifar_is_refused_by_name(tmp_path):
    path = tmp_path / "cifar-100-python.tar.gz"
    path.write_bytes(layouts.tarred({"cifar-100-python/train": b"\x80\x02}q\x01.", "cifar-100-python/meta": b"x"}))
    with pytest.raises(BadInput, match="CIFAR-100's binary version"):
        get("cifar-fs", tmp_path / "here", source=[path], verify=False)


def test_no_pack_leaves_what_data_pack_reads(tmp_path):
    data, _, _ = layouts.cifar(1)
    (tmp_path / "mine.tar.gz").write_bytes(data)
    got = get("cifar-fs", tmp_path / "here", source=[tmp_path / "mine.tar.gz"], verify=False, pack=False)
    ended = handful("data", "pack", got.source, tmp_path / "big", "--as", "csv", "--set", "labels=label", "--size", 48)
    assert ended.returncode == 0, ended.stderr
    assert open_collection(tmp_path / "big").card.shape == (48, 48, 3)
    assert set(open_collection(tmp_path / "big").table["label"]) == set(SPLIT_OF)


def test_the_command_line_tells_and_ends_in_one_sentence(shop, tmp_path):
    path = omniglot_manifest(shop, tmp_path)
    options = ("--manifest", path, "--to", tmp_path / "here", "--tries", 1)
    ended = handful("data", "get", "omniglot", *options, "--json")
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["collection"]["images"] == 432 and told["archives"][0]["checked"] == "sha256"
    assert handful("data", "verify", tmp_path / "here", "--manifest", path).returncode == 0
    (tmp_path / "here" / "archives" / "images_background.zip").write_bytes(b"PK\x03\x04")
    ended = handful("data", "verify", tmp_path / "here", "--manifest", path)
    assert ended.returncode == 2 and "FAULT" in ended.stdout
    shop.behaviours["/images_background.zip"] = corrupt
    ended = handful("data", "get", "omniglot", *options)
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1 and "not the published" in ended.stderr
    wrong = tmp_path / "birds.tgz"
    wrong.write_bytes(layouts.tarred({"README": "not it"}))
    ended = handful("data", "get", "cub", "--from", wrong, "--to", tmp_path / "cub")
    assert ended.returncode == 2 and "--no-verify" in ended.stderr
    listed = handful("data", "get", "--json")
    names = [d["name"] for d in json.loads(listed.stdout)["datasets"]]
    assert {"omniglot", "cifar-fs", "cub", "wordnet", "meta-album-brd", "meta-album-set2"} <= set(names)
    assert "did you mean" in handful("data", "get", "omniglto").stderr


def test_a_broken_record_is_told(tmp_path):
    (tmp_path / "got.json").write_text("{")
    with pytest.raises(BadInput, match="not the record"):
        read_record(tmp_path)


def test_a_manifest_of_ones_own_with_any_importer_and_a_tar(shop, tmp_path):
    files = {f"birds/c{c}/{i}.png": encoded(noise(10 * c + i)) for c in range(3) for i in range(4)}
    data = layouts.tarred(files)
    path = manifest(tmp_path, "birds", "folders", [("birds.tar.gz", [shop.put("b.tar.gz", data)], layouts.facts(data))])
    got = get("birds", tmp_path / "here", manifest=path, patience=CALM)
    assert set(got.collection.table["label"]) == {"c0", "c1", "c2"} and len(got.collection) == 12


@pytest.mark.real
def test_the_real_drawings_in_other_zips_are_told_from_the_published_ones(shared, tmp_path):
    """The drawings beside the project were zipped anew: other bytes, the same 1,623 characters."""
    mine = [shared / "omniglot", shared / "omniglot" / "splits"]
    with pytest.raises(BadInput, match="not the 9,464,212 that are published.*--no-verify"):
        get("omniglot", tmp_path / "here", source=mine)
    got = get("omniglot", tmp_path / "here", source=mine, verify=False, pack=False)
    assert [a.checked for a in got.record.archives] == ["unverified"] * 5
    listing = Omniglot().read(open_source(got.source))
    assert len(listing.items) == 1623 * 20 * 4 and listing.schemes == ("vinyals", "background")
