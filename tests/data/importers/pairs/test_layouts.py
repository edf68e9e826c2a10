"""Pair data sets in the layouts they are distributed in, written small, and the two builders."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat

from handful.data.importers import Item
from handful.data.importers.pairs.czsl import MitStates, UtZappos
from handful.data.importers.pairs.hico import Hico
from handful.data.importers.pairs.imsitu import ImSitu
from handful.data.importers.pairs.spelling import lemma
from handful.data.importers.pairs.visual_genome import VisualGenome
from handful.data.pack import pack
from handful.data.pair_splits import statistics
from handful.data.rlcl import RlclAct, RlclAttr
from handful.data.sources import open_source
from handful.errors import BadInput
from handful.tasks.pairs import Pairs


def picture(path, tone=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((9, 12, 3), tone % 256, dtype=np.uint8)).save(path)


def czsl(root, pairs, each=10, split="compositional-split-natural", folder="{a}_{o}", metadata=True, val=True):
    """images/, SPLIT/{train,val,test}_pairs.txt and metadata_SPLIT.t7 for {(attr, obj): (set, ...)}."""
    records = []
    for (a, o), parts in pairs.items():
        for k in range(each):
            name = f"{folder.format(a=a, o=o)}/{k}.jpg"
            picture(root / "images" / name, k * 20)
            records.append({"image": name, "attr": a, "obj": o, "set": parts[k % len(parts)]})
    (root / split).mkdir(parents=True, exist_ok=True)
    for part in ("train", "val", "test") if val else ("train", "test"):
        lines = [f"{a} {o}\n" for (a, o), parts in pairs.items() if part in parts]
        (root / split / f"{part}_pairs.txt").write_text("".join(lines))
    if metadata:
        records.append({"image": "none/1.jpg", "attr": "NA", "obj": "NA", "set": "NA"})
        records.append({"image": "odd_one/1.jpg", "attr": "odd", "obj": "one", "set": "train"})
        torch.save(records, root / f"metadata_{split}.t7")
    return root


PAIRS = {
    ("ripe", "apple"): ("train", "test"),
    ("ripe", "pear"): ("train",),
    ("raw", "apple"): ("val",),
    ("raw", "fish"): ("test",),
}


def rows(listing):
    return {(i.columns["attribute"], i.columns["object"], i.splits["czsl"]) for i in listing.items}


def test_metadata_say_what_each_image_is(tmp_path):
    listing = MitStates().read(open_source(czsl(tmp_path, PAIRS)))
    assert len(listing.items) == 40 and listing.labels == ("attribute", "object")
    assert rows(listing) == {
        ("ripe", "apple", "train"),
        ("ripe", "apple", "test"),
        ("ripe", "pear", "train"),
        ("raw", "apple", "valid"),
        ("raw", "fish", "test"),
    }
    assert any("1 records without" in n for n in listing.notes) and any(
        "in none of the pair lists" in n for n in listing.notes
    )


def test_folders_with_spaces_are_found_and_without_metadata_the_lists_decide(tmp_path):
    listing = MitStates().read(open_source(czsl(tmp_path, PAIRS, folder="{a} {o}", metadata=False)))
    assert rows(listing) == {
        ("ripe", "apple", "train"),
        ("ripe", "pear", "train"),
        ("raw", "apple", "valid"),
        ("raw", "fish", "test"),
    }
    with_metadata = MitStates().read(open_source(czsl(tmp_path / "b", PAIRS, folder="{a} {o}")))
    assert len(with_metadata.items) == 40


def test_ut_zappos_names_with_dots_and_original_paths(tmp_path):
    pairs = {
        ("Faux.Leather", "Boots.Ankle"): ("train",),
        ("Suede", "Slippers.Slipper.Flats"): ("val",),
        ("Nylon", "Shoes"): ("test",),
    }
    root = czsl(tmp_path, pairs, each=2)
    file = root / "metadata_compositional-split-natural.t7"
    records = torch.load(file, weights_only=True)
    picture(root / "_images" / "Shoes" / "Oxfords" / "Some Brand" / "100.jpg")
    records.append(
        {
            "image": "gone/100.jpg",
            "_image": "Shoes/Oxfords/Some Brand/100.jpg",
            "attr": "Nylon",
            "obj": "Shoes",
            "set": "test",
        }
    )
    torch.save(records, file)
    listing = UtZappos().read(open_source(root))
    assert ("Faux.Leather", "Boots.Ankle", "train") in rows(listing)
    assert any(i.file.endswith("Some Brand/100.jpg") for i in listing.items)


def test_wrong_czsl_folders_are_refused_in_one_sentence(tmp_path):
    picture(tmp_path / "a" / "images" / "x.jpg")
    with pytest.raises(BadInput, match=r"holds no train_pairs\.txt"):
        MitStates().read(open_source(tmp_path / "a"))
    root = czsl(tmp_path / "b", PAIRS, each=1)
    (root / "compositional-split-natural" / "test_pairs.txt").write_text("raw fish\nraw\n")
    with pytest.raises(BadInput, match=r"test_pairs.txt, line 2: 'raw' is not 'attribute object'"):
        MitStates().read(open_source(root))
    root = czsl(tmp_path / "c", PAIRS, each=1)
    (root / "metadata_compositional-split-natural.t7").write_bytes(b"not a torch file")
    with pytest.raises(BadInput, match="is not a torch file of plain values"):
        MitStates().read(open_source(root))
    czsl(tmp_path / "c", PAIRS, each=1, split="other-split")
    with pytest.raises(BadInput, match="several splits"):
        MitStates().read(open_source(root))
    assert MitStates(split="other-split").read(open_source(root)).items


def test_metadata_cannot_run_code(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "owned"), "w"))

    root = czsl(tmp_path, PAIRS, each=1)
    torch.save([Evil()], root / "metadata_compositional-split-natural.t7")
    with pytest.raises(BadInput):
        MitStates().read(open_source(root))
    assert not (tmp_path / "owned").exists()


def hico(
    root, images, actions=(("ride", "horse"), ("feed", "horse"), ("no_interaction", "horse"), ("ride", "bicycle"))
):
    """anno.mat and images; ``images`` is {part: [(name, positive interactions)]}."""
    struct = np.zeros(len(actions), dtype=[("nname", object), ("vname", object), ("vname_ing", object)])
    for i, (verb, noun) in enumerate(actions):
        struct[i] = (noun, verb, verb.removesuffix("e") + "ing")
    facts = {"list_action": struct.reshape(-1, 1)}
    for part in ("train", "test"):
        own = images.get(part, [])
        marks = np.full((len(actions), len(own)), np.nan)
        marks[0] = -1
        for column, (name, positive) in enumerate(own):
            picture(root / "images" / f"{part}2015" / name, column * 10)
            marks[list(positive), column] = 1
        names = np.zeros((len(own), 1), dtype=object)
        names[:, 0] = [n for n, _ in own]
        facts |= {f"list_{part}": names, f"anno_{part}": marks}
    root.mkdir(parents=True, exist_ok=True)
    savemat(root / "anno.mat", facts)
    return root


def test_hico_keeps_images_with_one_interaction(tmp_path):
    images = {
        "train": [("a.jpg", [0]), ("b.jpg", [0, 3]), ("c.jpg", [2]), ("d.jpg", [1, 2])],
        "test": [("e.jpg", [3]), ("f.jpg", [])],
    }
    listing = Hico().read(open_source(hico(tmp_path, images)))
    got = {
        i.file.rsplit("/", 1)[-1]: (i.columns["action"], i.columns["object"], i.splits["hico"]) for i in listing.items
    }
    assert got == {
        "a.jpg": ("ride", "horse", "train"),
        "d.jpg": ("feed", "horse", "train"),
        "e.jpg": ("ride", "bicycle", "test"),
    }
    assert any("1 images with several" in n for n in listing.notes)
    assert any("2 images without a positive" in n for n in listing.notes)
    first = Hico(several="first").read(open_source(tmp_path))
    assert {i.file.rsplit("/", 1)[-1]: i.columns["object"] for i in first.items}["b.jpg"] == "horse"


def imsitu(root, entries):
    """train/dev/test.json, imsitu_space.json and images; entries are (part, image, verb, nouns of three annotators)."""
    space = {
        "verbs": {
            "riding": {"order": ["agent", "vehicle", "place"], "abstract": "", "def": ""},
            "feeding": {"order": ["agent", "place", "eater"], "abstract": "", "def": ""},
            "sleeping": {"order": ["agent", "place"], "abstract": "", "def": ""},
        },
        "nouns": {"n1": {"gloss": ["horse", "Equus caballus"], "def": ""}, "n2": {"gloss": ["donkey"], "def": ""}},
    }
    root.mkdir(parents=True, exist_ok=True)
    (root / "imsitu_space.json").write_text(json.dumps(space))
    parts = {"train": {}, "dev": {}, "test": {}}
    for part, image, verb, nouns in entries:
        role = {"riding": "vehicle", "feeding": "eater", "sleeping": "place"}[verb]
        frames = [{"agent": "n1", "place": "", role: n} for n in nouns]
        parts[part][image] = {"verb": verb, "frames": frames}
        picture(root / "of500_images_resized" / image, len(image))
    for part, facts in parts.items():
        (root / f"{part}.json").write_text(json.dumps(facts))
    return root


def test_imsitu_object_is_the_majority_noun_of_the_first_other_role(tmp_path):
    entries = [
        ("train", "riding_1.jpg", "riding", ["n2", "n1", "n1"]),
        ("dev", "feeding_1.jpg", "feeding", ["n2", "n1", ""]),
        ("test", "sleeping_1.jpg", "sleeping", ["n1", "n1", "n1"]),
        ("test", "riding_2.jpg", "riding", ["", "", ""]),
    ]
    listing = ImSitu().read(open_source(imsitu(tmp_path, entries)))
    got = {(i.columns["action"], i.columns["object"], i.splits["imsitu"]) for i in listing.items}
    assert got == {("riding", "horse", "train"), ("feeding", "donkey", "valid")}
    assert any("2 images whose verb has no object role" in n for n in listing.notes)
    (tmp_path / "dev.json").write_text('{"x.jpg": {"verb": "flying", "frames": []}}')
    with pytest.raises(BadInput, match=r"'flying' is not in imsitu_space\.json"):
        ImSitu().read(open_source(tmp_path))
    (tmp_path / "dev.json").write_text("{\n]")
    with pytest.raises(BadInput, match=r"dev\.json, line 2 is not JSON"):
        ImSitu().read(open_source(tmp_path))


def box(name, w, h, **more):
    return {"names": [name], "w": w, "h": h, "x": 0, "y": 0, **more}


def genome(root, relationships, attributes=()):
    root.mkdir(parents=True, exist_ok=True)
    for number, _ in [*relationships, *attributes]:
        picture(root / "VG_100K" / f"{number}.jpg", number)
    (root / "relationships.json").write_text(
        json.dumps([{"image_id": n, "relationships": r} for n, r in relationships])
    )
    (root / "attributes.json").write_text(json.dumps([{"image_id": n, "attributes": a} for n, a in attributes]))
    return root


def relation(predicate, name, w, synset="ride.v.02"):
    return {"predicate": predicate, "object": box(name, w, 10), "subject": box("man", 500, 500), "synsets": [synset]}


def test_visual_genome_takes_the_largest_box(tmp_path):
    relations = [
        (1, [relation("RIDING", "Horse", 20), relation("feeding", "dog", 30), relation("on", "grass", 90, "on.r.01")]),
        (2, [relation("on", "sky", 90, "on.r.01")]),
    ]
    attributes = [
        (
            1,
            [
                box("tree", 10, 10, attributes=["green", "tall"]),
                box("sky", 50, 50),
                box("car", 20, 20, attributes=["Red "]),
            ],
        )
    ]
    source = open_source(genome(tmp_path, relations, attributes))
    listing = VisualGenome().read(source)
    assert [(i.columns["action"], i.columns["object"]) for i in listing.items] == [("feeding", "dog")]
    every = VisualGenome(verbs=False).read(source)
    assert [(i.columns["action"], i.columns["object"]) for i in every.items] == [("on", "grass"), ("on", "sky")]
    listing = VisualGenome(pairs="attribute").read(source)
    assert [(i.columns["attribute"], i.columns["object"]) for i in listing.items] == [("red", "car")]
    with pytest.raises(BadInput, match="pairs is relationship or attribute"):
        VisualGenome(pairs="both").read(source)


def attr_sources(root):
    """Small C-GQA, UT-Zappos and MIT-States with a size attribute, a short pair and shared primitives planted."""
    train = {(a, o): ("train",) for a in ("red", "wet", "open") for o in ("cat", "dog", "cup")}
    train |= {("small", "cat"): ("train",), ("ripe", "dog"): ("train",)}
    czsl(root / "cgqa", train, each=12, folder="{a}-{o}")
    valid = {(a, o): ("val",) for a in ("Suede", "Nylon", "Wool") for o in ("Boots", "Heels", "Flats")}
    czsl(root / "ut-zap50k", {**valid, ("Suede", "X"): ("train",), ("Suede", "Y"): ("test",)}, each=11)
    test = {(a, o): ("test",) for a in ("ripe", "raw", "cut") for o in ("pear", "fish", "bread")}
    test |= {("raw", "dog"): ("train",), ("Large", "fish"): ("test",)}
    czsl(root / "mit-states", test, each=14)
    for k in range(5):  # ripe/fig: five images only
        picture(root / "mit-states" / "images" / "ripe_fig" / f"{k}.jpg")
    file = root / "mit-states" / "metadata_compositional-split-natural.t7"
    records = torch.load(file, weights_only=True)
    records += [{"image": f"ripe_fig/{k}.jpg", "attr": "ripe", "obj": "fig", "set": "test"} for k in range(5)]
    torch.save(records, file)
    with open(root / "mit-states" / "compositional-split-natural" / "test_pairs.txt", "a") as stream:
        stream.write("ripe fig\n")
    return root


def test_rlcl_attr_filters_and_says_what_each_removed(tmp_path):
    done = pack(attr_sources(tmp_path / "raw"), tmp_path / "packed", RlclAttr(), size=8, workers=1, name="rlcl-attr")
    table = done.collection.table
    assert not {"small", "Large", "fig"} & {*table["attribute"].to_list(), *table["object"].to_list()}
    for column in ("attribute", "object"):
        parts = table.group_by(column).n_unique()
        assert parts["rlcl"].max() == 1
    # ripe: 12 images in train, 42 in test: test keeps it. dog: 36 + 12 in train, 14 in test: train keeps it.
    assert set(table.filter(table["attribute"] == "ripe")["rlcl"]) == {"test"}
    assert set(table.filter(table["object"] == "dog")["rlcl"]) == {"train"}
    notes = "\n".join(done.notes)
    assert "fewer than 10 samples: 5 images and 1 pairs removed (0 train, 0 valid, 1 test)" in notes
    assert "size attributes: 26 images and 2 pairs removed (1 train, 0 valid, 1 test)" in notes
    assert "primitives in several splits (1 attributes, 1 objects): 26 images and 2 pairs removed" in notes
    found = {r["split"]: r for r in statistics(done.collection, "attr").to_dicts()}
    assert (found["train"]["pairs"], found["train"]["first"], found["train"]["second"]) == (9, 3, 3)
    assert found["test"]["samples"] == 9 * 14 and found["test"]["reported_samples"] == 17921
    assert found["valid"]["pairs"] == 9 + 2
    rule = Pairs(done.collection.test, primitives=3)
    rule.check()
    assert len(rule.draw(0, 0).support) % 5 == 0


def test_which_split_keeps_a_shared_primitive_is_an_option(tmp_path):
    source = open_source(attr_sources(tmp_path))
    kept = {k: RlclAttr(keep=k).read(source) for k in ("train", "test")}
    for keep, listing in kept.items():
        assert {i.splits["rlcl"] for i in listing.items if i.columns["object"] == "dog"} == {keep}
    with pytest.raises(BadInput, match="keep is most"):
        RlclAttr(keep="all").read(source)


def _items(*facts):
    return [Item(f"{p}.jpg", {"action": a, "object": f"thing of {p}"}, {"rlcl": p}) for p, a in facts]


def test_rlcl_act_from_its_three_sources(tmp_path):
    actions = tuple((v, n) for v in ("ride", "feed", "wash") for n in ("horse", "bus", "cat"))
    images = {"train": [(f"{i}_{k}.jpg", [i]) for i in range(9) for k in range(10)]}
    hico(tmp_path / "hico", images, actions)
    verbs = [(v, n) for v in ("eating", "holding", "Riding") for n in ("pizza", "kite", "bat")]
    relations = [(100 * i + k, [relation(v, n, 20)]) for i, (v, n) in enumerate(verbs) for k in range(10)]
    genome(tmp_path / "visual_genome", relations)
    imsitu(tmp_path / "imsitu", [("train", f"riding_{k}.jpg", "riding", ["n2"] * 3) for k in range(40)])
    listing = RlclAct().read(open_source(tmp_path))
    parts = {
        p: {(i.columns["action"], i.columns["object"]) for i in listing.items if i.splits["rlcl"] == p}
        for p in ("train", "valid", "test")
    }
    # HICO's "ride" is imSitu's "riding": 30 images in train, 30 in valid, 40 in test, which keeps it.
    assert parts["train"] == {(v, n) for v in ("feeding", "washing") for n in ("horse", "bus", "cat")}
    assert parts["valid"] == {(v, n) for v, n in verbs if v != "Riding"}
    assert parts["test"] == {("riding", "donkey")}
    tie = RlclAct(least=1).filter(_items(("train", "ride"), ("valid", "ride")))[0]
    assert {i.splits["rlcl"] for i in tie} == {"valid"}  # valid before train
    with pytest.raises(BadInput, match="has no folder cgqa"):
        RlclAttr().read(open_source(tmp_path))


def test_the_command_builds_and_prints_table_3(tmp_path, capsys):
    from handful.cli import main

    attr_sources(tmp_path / "raw")
    with pytest.raises(SystemExit) as end:
        main(["data", "pack", str(tmp_path / "raw"), str(tmp_path / "packed"), *"--as rlcl-attr --size 8".split()])
    assert end.value.code in (0, None)
    said = capsys.readouterr().out
    assert "train: 9 pairs (reported 1,076), 3 attributes (reported 105)" in said
    assert said.startswith("rlcl-attr@1/8#") and "pairs removed" in said
    assert "test: no tasks" in said  # three primitives a side cannot give tasks of five
    with pytest.raises(SystemExit):
        main(["data", "stats", str(tmp_path / "packed"), "--primitives", "3"])
    assert "seen pairs and" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        main(["data", "pack", str(tmp_path / "raw"), str(tmp_path / "other"), "--as", "rlcl-atr"])
    assert end.value.code == 2 and not (tmp_path / "other").exists()


def test_forms_of_one_verb_are_one_action_across_all_three_sources(tmp_path):
    for forms in (("ride", "rides", "riding", "riding a"), ("carry", "carries", "carrying"), ("lie", "lying", "lies"),
                  ("dress", "dresses", "dressing"), ("cut", "cuts", "cutting"), ("wear", "wearing a", "wears the")):  # fmt: skip
        assert len({lemma(f) for f in forms}) == 1, forms
    assert len({lemma(v) for v in ("sing", "bring", "hold", "hose", "kiss", "brush with", "brush", "swing")}) == 8
    hico(
        tmp_path / "hico",
        {"train": [(f"{i}_{k}.jpg", [i]) for i in range(2) for k in range(12)]},
        (("wear", "tie"), ("feed", "cat")),
    )
    verbs = [("rides", "horse", 6), ("riding", "horse", 7), ("wearing a", "hat", 11), ("rides a", "bus", 3)]
    many = [(v, n) for v, n, times in verbs for _ in range(times)]
    genome(tmp_path / "visual_genome", [(k, [relation(v, n, 20)]) for k, (v, n) in enumerate(many)])
    imsitu(tmp_path / "imsitu", [("train", f"feeding_{k}.jpg", "feeding", ["n2"] * 3) for k in range(20)])
    items = RlclAct().read(open_source(tmp_path)).items
    where = {}
    for item in items:
        where.setdefault(lemma(item.columns["action"]), set()).add((item.splits["rlcl"], item.columns["action"]))
    assert all(len(v) == 1 for v in where.values()), where
    # Thirteen images of one pair, of which no form alone has ten.
    assert [i.columns["action"] for i in items if i.columns["object"] == "horse"] == ["riding"] * 13
