"""What `datasets` saves is packed with its classes, splits and pixels; what is not as it should be ends in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from PIL import Image

import handful as hf
from handful.data.importers import guess
from handful.data.pack import pack
from handful.data.sources import open_source
from handful.errors import BadInput, Missing
from handful.registry import make

from .conftest import encoded, handful, noise

datasets = pytest.importorskip("datasets")
NAMES = ["owl", "elm", "cat"]


def images(n: int, first: int = 0) -> list[np.ndarray]:
    return [noise(first + i, 12, 12) for i in range(n)]


def saved(n: int = 6, first: int = 0, **more):
    columns = {"image": [Image.fromarray(p) for p in images(n, first)], "label": [i % 3 for i in range(n)], **more}
    about = {"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)}
    about |= {c: datasets.Value("string" if isinstance(v[0], str) else "int64") for c, v in more.items()}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(about))


def read(folder: Path, **options):
    return make("importers", "hf", options).read(open_source(folder))


def test_a_saved_dictionary_of_splits_becomes_the_same_pixels_classes_and_splits(tmp_path):
    whole = {"train": saved(6), "validation": saved(3, 50), "test": saved(3, 90)}
    datasets.DatasetDict(whole).save_to_disk(tmp_path / "saved")
    packed = pack(tmp_path / "saved", tmp_path / "packed", size=12).collection
    assert packed.card.source == "hf:saved" and packed.card.schemes == ("split",)
    assert packed.table["split"].value_counts().sort("split").rows() == [("test", 3), ("train", 6), ("valid", 3)]
    assert packed.train.class_names == sorted(NAMES)
    rows = packed.train.rows
    np.testing.assert_array_equal(packed.read(rows), np.stack(images(6)))
    assert packed.table["label"][rows].to_list() == [NAMES[i % 3] for i in range(6)]


@pytest.mark.parametrize("workers", [1, 2])
def test_parquet_files_named_by_split_are_read_on_any_number_of_cores(tmp_path, workers):
    (tmp_path / "data").mkdir()
    saved(300).to_parquet(tmp_path / "data" / "train-00000-of-00001.parquet")
    saved(9, 500).to_parquet(tmp_path / "data" / "test-00000-of-00001.parquet")
    packed = pack(tmp_path / "data", tmp_path / "packed", "hf", size=12, workers=workers).collection
    np.testing.assert_array_equal(packed.read(packed.train.rows), np.stack(images(300)))
    assert packed.test.class_names == sorted(NAMES) and len(packed.test) == 9


def test_one_parquet_file_without_a_split_and_plain_bytes_is_enough(tmp_path):
    frame = pl.DataFrame(
        {"picture": [encoded(p) for p in images(4)], "kind": ["a", "a", "b", "b"], "age": [1, 2, 3, 4]}
    )
    frame.write_parquet(tmp_path / "mine.parquet")
    packed = pack(tmp_path / "mine.parquet", tmp_path / "packed", "hf", size=12, options={"labels": "kind"}).collection
    assert packed.card.schemes == () and packed.card.name == "mine"
    assert packed.table["age"].to_list() == ["1", "2", "3", "4"]
    np.testing.assert_array_equal(packed.read(np.arange(4)), np.stack(images(4)))
    with pytest.raises(
        BadInput, match=r"columns kind, age, of which any may be the class; say which: --set labels=kind"
    ):
        read(tmp_path / "mine.parquet")


def test_the_layout_is_known_by_its_files_and_fit_reads_it(tmp_path):
    saved(12).save_to_disk(tmp_path / "saved")
    assert guess(open_source(tmp_path / "saved")) == "hf"
    assert hf.fit(tmp_path / "saved", net="pixels").classes == tuple(sorted(NAMES))


def test_licence_and_citation_of_the_data_set_come_along(tmp_path):
    one = saved()
    one.info.license, one.info.citation = "CC BY 4.0", "@misc{owls, title={Owls}}"
    one.save_to_disk(tmp_path / "saved")
    card = pack(tmp_path / "saved", tmp_path / "packed", "hf", size=12).collection.card
    assert (card.licence, card.citation) == ("CC BY 4.0", "@misc{owls, title={Owls}}")


def test_rows_without_a_class_are_refused_or_left_out(tmp_path):
    frame = pl.DataFrame({"image": [encoded(p) for p in images(3)], "label": [0, -1, 1]})
    frame.write_parquet(tmp_path / "test.parquet")
    about = {"features": {"label": {"_type": "ClassLabel", "names": ["a", "b"]}}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(about))
    with pytest.raises(BadInput, match=r"test.parquet, row 1 has no label; .* unlabelled=skip"):
        read(tmp_path)
    found = read(tmp_path, unlabelled="skip")
    assert [(i.file, i.columns["label"]) for i in found.items] == [
        ("test.parquet/image/0", "a"),
        ("test.parquet/image/2", "b"),
    ]
    assert found.notes == ("1 rows without a class were left out",)


def test_two_columns_of_images_or_of_classes_are_asked_about(tmp_path):
    data = [encoded(p) for p in images(3)]
    about = {c: {"_type": "ClassLabel", "names": ["a", "b"]} for c in ("fine", "coarse")}
    (tmp_path / "dataset_info.json").write_text(json.dumps({"features": about}))
    frame = pl.DataFrame({"left": data, "right": data[::-1], "fine": [0, 1, 1], "coarse": [0, 0, 1]})
    frame.write_parquet(tmp_path / "x.parquet")
    with pytest.raises(BadInput, match="columns of images left, right; say which: --set image=left"):
        read(tmp_path)
    with pytest.raises(BadInput, match=r"columns fine, coarse, of which any .* \(or labels=fine,coarse for pairs\)"):
        read(tmp_path, image="left")
    found = read(tmp_path, image="right", labels="fine, coarse")
    assert found.labels == ("fine", "coarse") and found.items[2].file == "x.parquet/right/2"
    with pytest.raises(BadInput, match="no column of images 'lef'; did you mean left"):
        read(tmp_path, image="lef")


def test_paths_in_place_of_bytes_mean_files_beside_the_table(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded(noise(1, 12, 12)))
    frame = pl.DataFrame({"image": [{"bytes": None, "path": "a.png"}], "label": ["x"]})
    frame = frame.with_columns(pl.col("image").cast(pl.Struct({"bytes": pl.Binary, "path": pl.String})))
    frame.write_parquet(tmp_path / "t.parquet")
    assert read(tmp_path).items[0].file == "a.png"
    (tmp_path / "a.png").unlink()
    with pytest.raises(BadInput, match="row 0: the image 'a.png' is neither in the table nor in"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_a_damaged_table_is_refused(tmp_path, name):
    if name.endswith("parquet"):
        saved().to_parquet(tmp_path / name)
    else:
        saved().save_to_disk(tmp_path / "saved")
        next((tmp_path / "saved").glob("*.arrow")).rename(tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) // 2])
    ended = handful("data", "pack", tmp_path, tmp_path / "out", "--as", "hf")
    assert ended.returncode == 2 and "cannot be read as a table" in ended.stderr and not (tmp_path / "out").exists()


def test_numbers_beyond_the_names_and_tables_that_differ_are_refused(tmp_path):
    about = {"features": {"label": {"_type": "ClassLabel", "names": ["a", "b"]}}}
    (tmp_path / "dataset_info.json").write_text(json.dumps(about))
    frame = pl.DataFrame({"image": [encoded(noise(1))], "label": [2]})
    frame.write_parquet(tmp_path / "t.parquet")
    with pytest.raises(BadInput, match="column label has class 2, and there are 2 names"):
        read(tmp_path)
    frame.with_columns(label=0).write_parquet(tmp_path / "t.parquet")
    frame.with_columns(label=0, more=1).write_parquet(tmp_path / "u.parquet")
    with pytest.raises(BadInput, match=r"u.parquet has columns image, label, more, .*--set only=FOLDER"):
        read(tmp_path)


def test_a_cell_that_holds_no_image_is_an_unreadable_file(tmp_path):
    frame = pl.DataFrame({"image": [encoded(noise(1)), None, b"no image"], "label": ["a", "b", "b"]})
    frame.write_parquet(tmp_path / "t.parquet")
    with pytest.raises(BadInput, match=r"2 unreadable files: t.parquet/image/1 holds no bytes .* is not an image"):
        pack(tmp_path, tmp_path / "out", "hf")


def test_a_name_of_the_hub_says_at_once_that_there_is_no_network(tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(Missing, match="the data set someone/owls is not on this machine and cannot be fetched"):
        pack("someone/owls", tmp_path / "out", "hf")
    with pytest.raises(BadInput, match="does not exist"):
        pack("no/such/folder", tmp_path / "out", "hf")


def test_what_the_hub_gives_is_read_as_a_folder(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub")
    (tmp_path / "snapshot").mkdir()
    saved().to_parquet(tmp_path / "snapshot" / "train.parquet")
    asked = []

    def download(name, **options):
        asked.append((name, options["revision"]))
        return str(tmp_path / "snapshot")

    monkeypatch.setattr(hub, "snapshot_download", download)
    card = pack("someone/owls", tmp_path / "out", "hf", size=12).collection.card
    assert (card.name, card.source) == ("owls", "hf:owls") and asked == [("someone/owls", "main")]
