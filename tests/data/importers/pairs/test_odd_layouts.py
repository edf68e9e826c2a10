"""Layouts that differ a little from those distributed, damaged files, and spellings that differ between sources."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from scipy.io import loadmat, savemat

from handful.cli import main
from handful.data.importers.pairs.czsl import MitStates
from handful.data.importers.pairs.hico import Hico
from handful.data.importers.pairs.imsitu import ImSitu
from handful.data.importers.pairs.visual_genome import VisualGenome
from handful.data.pack import pack
from handful.data.pair_splits import ByPrimitive, statistics
from handful.data.rlcl import RlclAct, RlclAttr
from handful.data.sources import open_source
from handful.data.splits import add_scheme
from handful.errors import BadInput

from .test_layouts import PAIRS, attr_sources, box, czsl, genome, hico, imsitu, relation, rows

SPLIT = "compositional-split-natural"
TORCH_FILE = f"metadata_{SPLIT}.t7"


def test_valid_is_another_name_of_val(tmp_path):
    wanted = rows(MitStates().read(open_source(czsl(tmp_path / "a", PAIRS, each=2))))
    root = czsl(tmp_path / "b", PAIRS, each=2)
    (root / SPLIT / "val_pairs.txt").rename(root / SPLIT / "valid_pairs.txt")
    records = torch.load(root / TORCH_FILE, weights_only=True)
    torch.save([r | {"set": r["set"].replace("val", "valid")} for r in records], root / TORCH_FILE)
    assert rows(MitStates().read(open_source(root))) == wanted


def test_folders_of_another_case_are_found(tmp_path):
    root = czsl(tmp_path, PAIRS, each=2, metadata=False)
    for folder in list((root / "images").iterdir()):
        folder.rename(folder.with_name(folder.name.title()))
    assert len(MitStates().read(open_source(root)).items) == 8


@pytest.mark.parametrize("zipped", [True, False])
def test_a_torch_file_is_refused_wherever_it_is_cut(tmp_path, zipped):
    root = czsl(tmp_path, PAIRS, each=1)
    records = torch.load(root / TORCH_FILE, weights_only=True)
    torch.save(records, root / TORCH_FILE, _use_new_zipfile_serialization=zipped)
    assert MitStates().read(open_source(root)).items
    whole = (root / TORCH_FILE).read_bytes()
    for length in range(0, len(whole) - 40, 23):
        (root / TORCH_FILE).write_bytes(whole[:length])
        with pytest.raises(BadInput, match="is not a torch file of plain values"):
            MitStates().read(open_source(root))


def test_an_image_recorded_twice_is_never_two_images(tmp_path):
    """Twice with one pair: kept once. With two pairs: left out, or a task could show it and ask for it."""
    root = czsl(tmp_path, PAIRS, each=2)
    records = torch.load(root / TORCH_FILE, weights_only=True)
    torch.save([*records, records[0], records[2] | {"attr": "raw", "obj": "fish"}], root / TORCH_FILE)
    listing = MitStates().read(open_source(root))
    files = [i.file for i in listing.items]
    assert len(files) == len(set(files)) == 7
    assert any(f.endswith(records[0]["image"]) for f in files)
    assert not any(f.endswith(records[2]["image"]) for f in files)
    assert any("1 images that are recorded with several pairs" in n for n in listing.notes)


def test_a_damaged_anno_mat_is_refused(tmp_path):
    root = hico(tmp_path, {"train": [("a.jpg", [0]), ("b.jpg", [3])], "test": [("e.jpg", [3])]})
    whole = (root / "anno.mat").read_bytes()
    for length in (0, 100, 116, 130, len(whole) // 2, len(whole) - 9):
        (root / "anno.mat").write_bytes(whole[:length])
        with pytest.raises(BadInput, match="anno.mat cannot be read .*save it in MATLAB's version 5 format"):
            Hico().read(open_source(root))
    (root / "anno.mat").write_bytes(whole)
    facts = {k: v for k, v in loadmat(root / "anno.mat").items() if not k.startswith("_")}
    savemat(root / "anno.mat", facts | {"anno_train": np.zeros((3, 3))})
    with pytest.raises(BadInput, match=r"anno_train has shape \(3, 3\) for 4 interactions and 2 images"):
        Hico().read(open_source(root))


@pytest.mark.parametrize(
    "text", ["[1]", "null", '{"riding_1.jpg": {"verb": "riding", "frames": [null]}}', '{"a": "b"}']
)
def test_imsitu_files_of_another_form_are_refused(tmp_path, text):
    root = imsitu(tmp_path, [("train", "riding_1.jpg", "riding", ["n2", "n1", "n1"])])
    (root / "train.json").write_text(text)
    with pytest.raises(BadInput, match="fetch the file again"):
        ImSitu().read(open_source(root))


@pytest.mark.parametrize(
    "text",
    ["null", '{"a": 1}', "[1]", '[{"image_id": 1, "relationships": [[1]]}]', '[{"image_id": 1', '[{"image_id": 1} {}]'],
)
def test_visual_genome_files_of_another_form_are_refused(tmp_path, text):
    root = genome(tmp_path, [(1, [])])
    (root / "relationships.json").write_text(text)
    with pytest.raises(BadInput, match="fetch the file again|lacks 'relationships'"):
        VisualGenome().read(open_source(root))


def test_annotations_without_a_name_are_passed_over(tmp_path):
    nameless = relation("riding", "x", 90) | {"object": {"names": [], "w": 90, "h": 90}}
    relations = [
        (1, [relation(" ", "sky", 80), nameless, relation("riding", "horse", 5)]),
        (2, [relation(None, "a", 2)]),
    ]
    attributes = [(3, [box("sky", 50, 50, attributes=[" ", None]), box("tree", 9, 9, attributes=["", "Green"])])]
    source = open_source(genome(tmp_path, relations, attributes))
    assert [tuple(i.columns.values()) for i in VisualGenome().read(source).items] == [("riding", "horse")]
    listing = VisualGenome(pairs="attribute").read(source)
    assert [tuple(i.columns.values()) for i in listing.items] == [("green", "tree")]


def test_a_very_long_file_of_visual_genome_is_read(tmp_path, monkeypatch):
    """The real relationships.json is 700 MB, more than a source reads of a zip's member."""
    source = open_source(genome(tmp_path, [(n, [relation("riding", "horse", 5)]) for n in range(4)]))
    monkeypatch.setattr("handful.data.sources.FILE_CAP", 100)
    assert len(VisualGenome().read(source).items) == 4


def test_spellings_of_one_primitive_do_not_share_it_between_splits(tmp_path):
    actions = tuple((v, n) for v in ("feed", "wash") for n in ("baseball_bat", "cat"))
    images = {"train": [(f"{i}_{k}.jpg", [i]) for i in range(4) for k in range(10)]}
    hico(tmp_path / "hico", images, actions)
    pairs = [("eating", "Baseball Bat"), ("eating", "pizza")]
    genome(tmp_path / "vg", [(100 * i + k, [relation(v, n, 20)]) for i, (v, n) in enumerate(pairs) for k in range(10)])
    imsitu(tmp_path / "imsitu", [("train", f"riding_{k}.jpg", "riding", ["n2"] * 3) for k in range(10)])
    listing = RlclAct().read(open_source(tmp_path))
    bats = {i.splits["rlcl"] for i in listing.items if "bat" in i.columns["object"]}
    assert bats == {"train"}
    assert any("primitives in several splits (0 actions, 1 objects): 10 images" in n for n in listing.notes)


def test_the_builder_names_one_of_several_splits_and_refuses_a_senseless_least(tmp_path):
    root = attr_sources(tmp_path)
    shutil.copytree(root / "mit-states" / SPLIT, root / "mit-states" / "compositional-split")
    with pytest.raises(BadInput, match="name one with split=NAME"):
        RlclAttr().read(open_source(root))
    assert RlclAttr(split=SPLIT).read(open_source(root)).items
    with pytest.raises(BadInput, match="least must be at least 1, not 0"):
        RlclAttr(split=SPLIT, least=0).read(open_source(root))


def test_table_3_has_totals_and_json_has_no_nan(tmp_path, capsys):
    pack(
        genome(tmp_path / "raw", [(n, [relation("riding", "horse", 5)]) for n in range(4)]),
        tmp_path / "p",
        "visual-genome",
    )
    with pytest.raises(SystemExit) as end:
        main(["data", "stats", str(tmp_path / "p"), "--json"])
    assert not end.value.code
    facts = json.loads(capsys.readouterr().out, parse_constant=lambda text: pytest.fail(text))
    assert [(r["split"], r["pairs"], r["samples"], r["grid"]) for r in facts["pairs"]["splits"]] == [
        ("train", 0, 0, None),
        ("valid", 0, 0, None),
        ("test", 0, 0, None),
        ("all", 1, 4, 1.0),
    ]
    done = pack(attr_sources(tmp_path / "attr"), tmp_path / "q", RlclAttr(), size=8, workers=1)
    total = statistics(done.collection, "attr").to_dicts()[-1]
    assert (total["reported_pairs"], total["reported_first"], total["reported_second"]) == (1768, 190, 488)
    assert (total["split"], total["reported_samples"], total["samples"]) == ("all", 99771, len(done.collection))


def test_any_pair_collection_can_be_split_by_disjoint_primitives(tmp_path, capsys):
    pairs = {(f"a{i}", f"o{j}"): ("train",) for i in range(8) for j in range(8)}
    pack(czsl(tmp_path / "raw", pairs, each=1), tmp_path / "packed", "mit-states", size=4, workers=1)
    by = ["--by", "primitives"]
    with pytest.raises(SystemExit) as end:
        main(["data", "split", str(tmp_path / "packed"), *by, "--fractions", "0.5,0.25,0.25", "--seed", "1"])
    assert not end.value.code
    assert "40 of 64 images have their two primitives in different splits" in capsys.readouterr().out
    from handful.data.collection import open_packed

    collection = open_packed(tmp_path / "packed")
    assert collection.card.schemes == ("primitives", "czsl")
    table = collection.table.filter(collection.table["primitives"] != "")
    for column, shares in (
        ("attribute", {"train": 4, "valid": 2, "test": 2}),
        ("object", {"train": 4, "valid": 2, "test": 2}),
    ):
        assert table.group_by(column).n_unique()["primitives"].max() == 1
        assert {p: table.filter(table["primitives"] == p)[column].n_unique() for p in shares} == shares
    again = add_scheme(tmp_path / "packed", ByPrimitive(seed=1))
    assert again.table["primitives"].to_list() == collection.table["primitives"].to_list()
    with pytest.raises(SystemExit) as end:
        main(["data", "split", str(tmp_path / "packed"), *by, "--fractions", "half"])
    assert end.value.code == 2
