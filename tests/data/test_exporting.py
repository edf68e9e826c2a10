"""What is exported comes back the same, and other programs read it."""

from __future__ import annotations

import dataclasses
import json
from hashlib import sha256

import numpy as np
import pytest

import handful as hf
from handful.data import parquet_out
from handful.data.collection import Card, Collection, as_table
from handful.data.exporting import export, safe_name
from handful.data.pack import pack
from handful.errors import BadInput

from .conftest import handful, noise


def made(labels: tuple[str, ...] = ("label",), n: int = 12, channels: int = 3) -> Collection:
    """Two classes in each split, one image in none."""
    splits = ["train", "train", "valid", "test", "test_seen", ""] * (n // 6)
    columns = {c: [f"{c} {i % 2}/é" for i in range(n)] for c in labels} | {"place": [str(i) for i in range(n)]}
    card = Card(
        "owls", "images", (10, 10, channels), labels, licence="CC BY 4.0", schemes=("mine",), citation="@misc{owls}"
    )
    pixels = np.stack([noise(i, 10, 10)[..., :channels] for i in range(n)])
    return Collection(dataclasses.replace(card, hash="0" * 64), as_table({**columns, "mine": splits}), pixels)


def same(packed: Collection, was: Collection, labels: tuple[str, ...] = ("label",)) -> None:
    for split in ("train", "valid", "test"):
        new, old = packed.part(split), was.part(split)
        assert len(new) == len(old) and sorted(new.class_names) == sorted(old.class_names)
        by = {tuple(map(str, p.reshape(-1))): c for p, c in zip(was.read(old.rows), old.classes, strict=True)}
        for pixels, code in zip(packed.read(new.rows), new.classes, strict=True):
            assert old.class_names[by[tuple(map(str, pixels.reshape(-1)))]] == new.class_names[code]


@pytest.mark.parametrize("kind", ["hf", "croissant"])
@pytest.mark.parametrize("channels", [1, 3])
def test_parquet_comes_back_with_the_same_pixels_classes_splits_licence_and_citation(tmp_path, kind, channels):
    pytest.importorskip("pyarrow")
    was = made(channels=channels)
    done = export(was, tmp_path / "out", kind)
    assert done.images == {"test": 2, "test_seen": 2, "train": 4, "valid": 2}
    assert done.notes == ("2 images in no split of mine were left out",)
    packed = pack(tmp_path / "out", tmp_path / "packed", kind, size=10, grey=channels == 1).collection
    same(packed, was)
    assert (packed.card.licence, packed.card.citation) == ("CC BY 4.0", "@misc{owls}")
    assert len(packed.part("test_seen")) == 2 and "place" in packed.table.columns


def test_datasets_reads_the_files_with_named_classes_and_pictures(tmp_path):
    datasets = pytest.importorskip("datasets")
    was = made()
    export(was, tmp_path / "out", "hf")
    files = {"train": str(tmp_path / "out" / "data" / "train-*.parquet")}
    read = datasets.load_dataset("parquet", data_files=files, cache_dir=str(tmp_path / "cache"))["train"]
    assert read.features["label"].names == ["label 0/é", "label 1/é"]
    np.testing.assert_array_equal(np.stack([np.asarray(i) for i in read["image"]]), was.read(was.train.rows))
    whole = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache2"))
    assert {k: len(v) for k, v in whole.items()} == {"train": 4, "validation": 2, "test": 2, "test_seen": 2}


def test_many_images_become_several_shards(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(parquet_out, "SHARD_BYTES", 3 * 300)
    monkeypatch.setattr(parquet_out, "GROUP", 2)
    was = made(n=24)
    export(was, tmp_path / "out", "hf")
    names = sorted(p.name for p in (tmp_path / "out" / "data").glob("train*"))
    assert names == [f"train-0000{i}-of-00003.parquet" for i in range(3)]
    same(pack(tmp_path / "out", tmp_path / "packed", size=10).collection, was)


def test_class_folders_come_back_and_names_that_are_no_folders_are_spelt_out(tmp_path):
    was = made()
    export(was, tmp_path / "out", "folders")
    assert (tmp_path / "out" / "train" / "label 0%2Fé").is_dir()
    text = (tmp_path / "out" / "README.md").read_text()
    assert "Licence: CC BY 4.0" in text and "@misc{owls}" in text
    packed = pack(tmp_path / "out", tmp_path / "packed", "folders", size=10).collection
    np.testing.assert_array_equal(np.sort(packed.read(packed.train.rows), 0), np.sort(was.read(was.train.rows), 0))
    names = ["..", ".", "a/b", "a%2Fb", "", "%", "__x", "%__x", "con ", "C:x", "\0"]
    safe = [safe_name(n) for n in names]
    assert len(set(safe)) == len(names)
    assert not any(s.startswith((".", "__")) or set(s) & set("/\\:\0") for s in safe)


def test_several_label_columns_each_keep_their_names(tmp_path):
    pytest.importorskip("pyarrow")
    was = made(("a", "b"))
    export(was, tmp_path / "out", "hf")
    packed = pack(tmp_path / "out", tmp_path / "packed", "hf", size=10, options={"labels": "a,b"}).collection
    assert packed.card.labels == ("a", "b") and packed.train.class_names == was.train.class_names


def test_croissant_names_files_by_hash_and_fields_by_column(tmp_path):
    pytest.importorskip("pyarrow")
    export(made(), tmp_path / "out", "croissant")
    said = json.loads((tmp_path / "out" / "croissant.json").read_text())
    assert said["conformsTo"] == "http://mlcommons.org/croissant/1.0" and said["citeAs"] == "@misc{owls}"
    for file in said["distribution"]:
        data = (tmp_path / "out" / file["contentUrl"]).read_bytes()
        assert file["sha256"] == sha256(data).hexdigest()
    train = next(r for r in said["recordSet"] if r["@id"] == "train")
    assert [f["name"] for f in train["field"]][:2] == ["image", "label"]


def test_croissant_gives_classes_their_names_where_the_tables_do_not(tmp_path):
    pytest.importorskip("pyarrow")
    import polars as pl

    export(made(), tmp_path / "out", "croissant")
    (tmp_path / "out" / "dataset_info.json").unlink()
    description = tmp_path / "out" / "croissant.json"
    for file in sorted((tmp_path / "out" / "data").iterdir()):
        before = sha256(file.read_bytes()).hexdigest()
        pl.read_parquet(file).write_parquet(file)
        after = sha256(file.read_bytes()).hexdigest()
        description.write_text(description.read_text().replace(before, after))
    packed = pack(tmp_path / "out", tmp_path / "packed", size=10).collection
    assert packed.card.source == "croissant:out" and packed.train.class_names == ["label 0/é", "label 1/é"]


def test_a_croissant_that_is_not_true_or_not_whole_is_refused(tmp_path):
    pytest.importorskip("pyarrow")
    export(made(), tmp_path / "out", "croissant")
    description = tmp_path / "out" / "croissant.json"
    whole = description.read_text()
    file = next((tmp_path / "out" / "data").glob("train*"))

    def refused(said: str) -> None:
        ended = handful("data", "pack", tmp_path / "out", tmp_path / "packed", "--as", "croissant")
        assert ended.returncode == 2 and said in ended.stderr and not (tmp_path / "packed").exists()

    description.write_text(whole.replace(sha256(file.read_bytes()).hexdigest(), "0" * 64))
    refused("is not the file described")
    description.write_text(whole.replace(f"data/{file.name}", f"https://example.org/{file.name}"))
    refused("download it to there first")
    description.write_text(whole.replace("sc:ImageObject", "sc:Text"))
    refused("describes 0 columns of images")
    for damaged in ("{", "[]", '{"distribution": 3, "recordSet": 4}', whole.replace('"extract"', '"extrac"')):
        description.write_text(damaged)
        refused("is not a description in Croissant 1.0")
    description.unlink()
    refused("holds no croissant.json")


def test_what_cannot_be_exported_is_refused_and_nothing_is_left(tmp_path):
    made().save(tmp_path / "packed")
    ended = handful("data", "export", tmp_path / "packed", tmp_path / "out", "--as", "coco")
    assert ended.returncode == 2 and "exported as hf, folders, croissant, not as 'coco'" in ended.stderr
    (tmp_path / "there").mkdir()
    ended = handful("data", "export", tmp_path / "packed", tmp_path / "there", "--as", "folders")
    assert ended.returncode == 2 and "exists; name another folder" in ended.stderr
    ended = handful("data", "export", tmp_path / "packed", tmp_path / "out", "--scheme", "min")
    assert ended.returncode == 2 and "did you mean mine?" in ended.stderr
    features = Collection(Card("f", "features", (3,), ("label",)), as_table({"label": ["a"]}), np.zeros((1, 3)))
    with pytest.raises(BadInput, match="holds features, not images"):
        export(features, tmp_path / "out", "hf")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["packed", "there"]


def test_an_export_that_fails_midway_leaves_nothing(tmp_path, monkeypatch):
    was = made()
    monkeypatch.setattr(was, "read", lambda rows: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError):
        export(was, tmp_path / "out", "folders")
    assert list(tmp_path.iterdir()) == []


def test_a_collection_without_splits_is_one_file_and_comes_back_without(tmp_path):
    pytest.importorskip("pyarrow")
    was = made()
    whole = Collection(dataclasses.replace(was.card, schemes=()), was.table.drop("mine"), was.array)
    export(whole, tmp_path / "out", "hf")
    assert hf.open(tmp_path / "out").card.name and len(list((tmp_path / "out" / "data").iterdir())) == 1
    packed = pack(tmp_path / "out", tmp_path / "packed", size=10).collection
    assert packed.card.schemes == () and len(packed) == 12
