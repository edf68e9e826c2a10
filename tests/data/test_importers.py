"""Each layout becomes the right rows, labels and splits; each broken one a sentence."""

from __future__ import annotations

import json
import textwrap
import zipfile
from dataclasses import dataclass
from typing import ClassVar

import pytest

from documents import ROOT
from handful import registry
from handful.data.importers import Item, Listing, guess, images_or_refuse
from handful.data.importers.concept_context import ConceptContext
from handful.data.importers.csv import Csv
from handful.data.importers.folders import Folders
from handful.data.importers.meta_album import MetaAlbum
from handful.data.importers.omniglot import Omniglot
from handful.data.pack import pack
from handful.data.sources import Source, open_source
from handful.errors import BadInput, Missing

from .conftest import encoded, noise

P = encoded(noise(0, 4, 4))


def rows(listing, *columns):
    return [tuple(i.columns[c] for c in columns) for i in listing.items]


@pytest.mark.parametrize("name", ["folders", "meta-album", "concept-context", "omniglot", "csv"])
def test_importers_are_registered_and_state_size_and_grey(name):
    importer = registry.get("importers", name)
    assert importer.name == name and importer.size > 0 and importer.grey in (True, False)


@pytest.mark.parametrize("wrap", ["", "birds/", "a/b/"])
def test_class_folders_under_any_wrapping(tree, wrap):
    found = Folders().read(open_source(tree({f"{wrap}cat/1.png": P, f"{wrap}dog/2.png": P, f"{wrap}dog/3.png": P})))
    assert rows(found, "label") == [("cat",), ("dog",), ("dog",)]
    assert found.schemes == ()


def test_folders_in_folders_are_asked_about_and_never_merged_in_silence(tree):
    source = open_source(tree({"birds/owl/1.png": P, "birds/wren/2.png": P, "trees/elm/3.png": P}))
    with pytest.raises(BadInput, match=r"level=1 \(birds, trees: 2 classes\) or level=2 \(elm, owl, ...: 3 classes\)"):
        Folders().read(source)
    assert set(rows(Folders(level=1).read(source), "label")) == {("birds",), ("trees",)}
    assert set(rows(Folders(level=2).read(source), "label")) == {("elm",), ("owl",), ("wren",)}
    with pytest.raises(BadInput, match="folders 2 deep; level=3 is none of them"):
        Folders(level=3).read(source)


def test_outer_folders_named_by_split_are_splits(tree):
    files = {"train/cat/1.png": P, "val/dog/2.png": P, "test/owl/3.png": P}
    found = Folders().read(open_source(tree(files)))
    assert [(i.columns["label"], i.splits["split"]) for i in found.items] == [
        ("owl", "test"),
        ("cat", "train"),
        ("dog", "valid"),
    ]


def test_one_class_in_one_folder_is_a_class(tree):
    assert rows(Folders().read(open_source(tree({"cat/1.png": P, "cat/2.png": P}))), "label") == [("cat",)] * 2


def test_an_image_outside_every_class_is_refused(tree):
    with pytest.raises(BadInput, match=r"2\.png is in no class folder"):
        Folders().read(open_source(tree({"cat/1.png": P, "2.png": P})))


def test_concepts_and_contexts_either_way_round(tree):
    source = open_source(tree({"dog/grass/1.png": P, "dog/snow/2.png": P, "cat/snow/3.png": P}))
    found = ConceptContext().read(source)
    assert rows(found, "concept", "context") == [("cat", "snow"), ("dog", "grass"), ("dog", "snow")]
    assert found.labels == ("concept",) and found.context == "context"
    assert rows(ConceptContext(outer="context").read(source), "context", "concept") == rows(found, "concept", "context")


def test_an_image_without_context_is_refused(tree):
    with pytest.raises(BadInput, match=r"dog/2\.png does not lie in concept/context/"):
        ConceptContext().read(open_source(tree({"dog/grass/1.png": P, "dog/2.png": P})))


ALBUM = {
    "A/images/1.png": P,
    "A/images/2.png": P,
    "A/labels.csv": "FILE_NAME,CATEGORY,SUPER_CATEGORY\n1.png,cat,pet\n2.png,dog,pet\n",
    "A/info.json": json.dumps({"dataset_name": "ANIMALS"}),
    "B/pictures/1.png": P,
    "B/labels.csv": "name,kind\n1.png,apple\n",
    "B/info.json": json.dumps({"image_column_name": "name", "category_column_name": "kind", "image_path": "pictures"}),
}


def test_a_folder_of_meta_album_sets_is_one_collection_with_a_dataset_column(tree):
    files = {**ALBUM, "info/meta_splits.txt": json.dumps({"meta-train": ["ANIMALS"], "meta-test": ["B"]})}
    found = MetaAlbum().read(open_source(tree(files)))
    assert rows(found, "dataset", "category") == [("ANIMALS", "cat"), ("ANIMALS", "dog"), ("B", "apple")]
    assert [i.splits["datasets"] for i in found.items] == ["train", "train", "test"]
    assert found.items[0].columns["super_category"] == "pet"


def test_one_meta_album_set_alone(tree):
    files = {k.removeprefix("A/"): v for k, v in ALBUM.items() if k.startswith("A/")}
    assert rows(MetaAlbum().read(open_source(tree(files))), "dataset") == [("ANIMALS",)] * 2


def test_a_label_table_shorter_than_the_images_is_refused_or_skipped(tree):
    root = tree({**ALBUM, "A/images/3.png": P})
    with pytest.raises(BadInput, match=r"A/labels\.csv labels 2 of 3 images, not 3\.png"):
        MetaAlbum().read(open_source(root))
    found = MetaAlbum(unlabelled="skip").read(open_source(root))
    assert len(found.items) == 3 and "left out" in found.notes[0]


@pytest.mark.parametrize(
    "table, message",
    [
        ("FILE_NAME,SUPER_CATEGORY\n1.png,pet\n", "no column 'CATEGORY'"),
        ("FILE_NAME,CATEGORY\n1.png,cat\n9.png,cat\n", r"line 3: 9\.png is not in"),
        ("FILE_NAME,CATEGORY\n1.png,cat\n1.png,cat\n", r"line 3: 1\.png is listed twice"),
        ("FILE_NAME,CATEGORY\n1.png,\n2.png,dog\n", "line 2 has no CATEGORY"),
        ("FILE_NAME,CATEGORY\n1.png\n", "line 2 has 1 fields, the header 2"),
        ("", "needs a header"),
        (b"FILE_NAME,CATEGORY\n1.png,caf\xe9\n", "line 2: byte 0xe9 is not UTF-8"),
    ],
)
def test_a_wrong_meta_album_table_is_refused_with_its_line(tree, table, message):
    with pytest.raises(BadInput, match=message):
        MetaAlbum().read(open_source(tree({**ALBUM, "A/labels.csv": table})))


def test_a_csv_with_a_split_column_and_two_label_columns(tree):
    table = "path,attribute,object,split\nimages/1.png,wet,dog,train\nimages/2.png,dry,dog,val\n\n"
    source = open_source(tree({"images/1.png": P, "images/2.png": P, "labels.csv": table}))
    with pytest.raises(BadInput, match="columns attribute, object, of which any may be the class; say which"):
        Csv().read(source)
    found = Csv(labels="attribute,object").read(source)
    assert found.labels == ("attribute", "object") and found.schemes == ("split",)
    assert [i.splits["split"] for i in found.items] == ["train", "valid"]
    assert Csv(labels="object", context="attribute").read(source).context == "attribute"


def test_one_csv_a_split_with_images_in_a_zip(tree):
    root = tree({f"{s}.csv": f"filename,label\n{s}.png,{s}-class\n" for s in ("train", "val", "test")})
    with zipfile.ZipFile(root / "images.zip", "w") as out:
        for split in ("train", "val", "test"):
            out.writestr(f"images/{split}.png", P)
    found = Csv().read(open_source(root))
    assert {i.columns["label"]: i.splits["split"] for i in found.items} == {
        "train-class": "train",
        "val-class": "valid",
        "test-class": "test",
    }


@pytest.mark.parametrize(
    "table, message",
    [
        ("name_of_file,label\n1.png,a\n", "no column of paths"),
        ("filename\n1.png\n", "no label column"),
        ("filename,label\n1.png,a\n2.png,b\n", r"labels\.csv, line 3: 2\.png does not exist"),
        ("filename,label\n../1.png,a\n", r"line 2: '\.\./1\.png' is not a path inside"),
        ("filename,label\n/etc/passwd,a\n", "is not a path inside"),
        ("filename,label\n1.png,\n", "line 2 has no label"),
        ("filename,label,split\n1.png,a,holdout\n", "line 2: 'holdout' is not a split"),
        ("filename,label\n", "list no images"),
        ("filename,label,label\n1.png,a,b\n", "distinct column names"),
        (b"filename,label\n1.png,na\xefve\n", "line 2: byte 0xef is not UTF-8"),
    ],
)
def test_a_wrong_csv_is_refused_with_its_line(tree, table, message):
    with pytest.raises(BadInput, match=message):
        Csv().read(open_source(tree({"x/1.png": P, "labels.csv": table})))


def test_a_missing_label_column_is_named(tree):
    source = open_source(tree({"1.png": P, "t.csv": "filename,kind\n1.png,a\n"}))
    with pytest.raises(BadInput, match=r"no column 'knid'; did you mean kind\?"):
        Csv(labels="knid").read(source)


def test_a_name_that_two_files_share_is_refused(tree):
    with pytest.raises(BadInput, match=r"1\.png could be a/1\.png or b/1\.png"):
        Csv().read(open_source(tree({"a/1.png": P, "b/1.png": P, "t.csv": "filename,label\n1.png,a\n"})))


OMNIGLOT = {
    f"images_{half}/{alphabet}/character{c:02d}/000{c}_{d:02d}.png": P
    for half, alphabet in (("background", "Latin"), ("evaluation", "Angelic"))
    for c in (1, 2)
    for d in (1, 2)
}
VINYALS = {
    "splits/vinyals/train.txt": "".join(f"Latin/character01/rot{r}\n" for r in ("000", "090", "180", "270")),
    "splits/vinyals/val.txt": "".join(f"Latin/character02/rot{r}\n" for r in ("000", "090", "180", "270")),
    "splits/vinyals/test.txt": "".join(f"Angelic/character01/rot{r}\n" for r in ("000", "090", "180", "270")),
}


def test_omniglot_has_four_rotations_and_two_schemes(tree):
    found = Omniglot().read(open_source(tree({**OMNIGLOT, **VINYALS})))
    assert len(found.items) == 32 and found.schemes == ("vinyals", "background") and found.invert
    seen = {tuple(i.columns.values()): (i.splits["vinyals"], i.splits["background"], i.turn) for i in found.items}
    assert seen["Latin", "character02", "rot180"] == ("valid", "", 2)
    assert seen["Angelic", "character01", "rot000"] == ("test", "test", 0)
    assert seen["Angelic", "character02", "rot090"] == ("", "", 1)


def test_omniglot_without_split_files_says_so(tree):
    found = Omniglot(rotations=1).read(open_source(tree(OMNIGLOT)))
    assert found.schemes == ("background",) and len(found.items) == 8 and "Vinyals" in found.notes[0]


def test_omniglot_with_half_a_split_is_refused(tree):
    files = {k: v for k, v in VINYALS.items() if "val" not in k.rpartition("/")[2]}
    with pytest.raises(Missing, match=r"lacks val\.txt"):
        Omniglot().read(open_source(tree({**OMNIGLOT, **files})))


def test_omniglot_split_of_absent_drawings_is_refused(tree):
    files = {k: v for k, v in OMNIGLOT.items() if "Angelic" not in k}
    with pytest.raises(
        BadInput, match="4 classes of the Vinyals split have no drawings, first Angelic/character01/rot000"
    ):
        Omniglot().read(open_source(tree({**files, **VINYALS})))


def test_the_layout_is_guessed(tree):
    layouts = {
        "omniglot": OMNIGLOT,
        "meta-album": ALBUM,
        "csv": {"images/1.png": P, "train.csv": "filename,label\n1.png,a\n"},
        "concept-context": {"dog/grass/1.png": P, "cat/grass/2.png": P},
        "folders": {"dog/1.png": P, "cat/2.png": P},
    }
    for name, files in layouts.items():
        assert guess(open_source(tree(files, name))) == name
    assert guess(open_source(tree({"train/dog/1.png": P, "test/dog/2.png": P}, "split"))) == "folders"


def test_the_importer_that_the_docs_show_works(tree, tmp_path):
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    code = textwrap.dedent(text[text.index("    @dataclass(frozen=True)") :])
    names = {"dataclass": dataclass, "ClassVar": ClassVar, "Source": Source, "Item": Item, "Listing": Listing}
    exec(compile(code, "docs/data.md", "exec"), names | {"images_or_refuse": images_or_refuse}, made := {})
    done = pack(tree({"cat_1.png": P, "dog_1.png": P}), tmp_path / "out", made["Pairs"](), size=4)
    assert done.collection.table["label"].to_list() == ["cat", "dog"]


@pytest.mark.real
def test_real_omniglot_lists_as_published(shared):
    found = Omniglot().read(open_source(shared / "omniglot"))
    assert len(found.items) == 32_460 * 4
    classes = {tuple(i.columns.values()): i.splits["vinyals"] for i in found.items}
    counts = [list(classes.values()).count(s) for s in ("train", "valid", "test")]
    assert counts == [1028 * 4, 172 * 4, 423 * 4]


@pytest.mark.real
def test_real_miniimagenet_pacs_and_album_list_as_published(shared):
    mini = Csv().read(open_source(shared / "miniimagenet"))
    of_split = {
        s: {i.columns["label"] for i in mini.items if i.splits["split"] == s} for s in ("train", "valid", "test")
    }
    assert [len(c) for c in of_split.values()] == [64, 16, 20]
    pacs = ConceptContext().read(open_source(shared / "pacs"))
    assert len(pacs.items) == 9991
    assert [len({i.columns[c] for i in pacs.items}) for c in ("concept", "context")] == [7, 4]
    album = MetaAlbum().read(open_source(shared / "album"))
    assert {i.columns["dataset"] for i in album.items} == {"CALTECH", "CIFAR", "FRUITS"} and len(album.items) == 4800
