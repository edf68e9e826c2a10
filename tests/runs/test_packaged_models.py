"""Models that come with the library: found by name, whole, small, and as good as their card says."""

from __future__ import annotations

import json

import pytest

import handful as hf
from handful.errors import BadInput
from handful.methods.contract import FACTS, MODEL, MODELS, load, packaged

NAMES = packaged()


@pytest.mark.parametrize("name", NAMES)
def test_a_packaged_model_loads_by_name_and_is_small(name):
    assert (MODELS / name / MODEL).stat().st_size < 1 << 20
    learner = hf.load(name)
    card = json.loads((MODELS / name / FACTS).read_text())["card"]
    assert learner.shape == (32, 32, 3) and set(card["accuracy"]) == {"5-way 1-shot", "5-way 5-shot"}


def test_a_name_that_is_neither_folder_nor_packaged_is_refused():
    with pytest.raises(BadInput, match=r"no packaged model of that name \(.*cifar-fs/protonet"):
        load("cifar-fs/protonett")


@pytest.mark.real
@pytest.mark.parametrize("name", NAMES)
def test_a_packaged_model_is_as_good_on_photographs_as_its_card_says(name, shared, tmp_path_factory):
    """A hundred test tasks: within six points of the card's number, about five times their interval."""
    packed = cifar(shared / "cifar-fs", tmp_path_factory)
    card = json.loads((MODELS / name / FACTS).read_text())["card"]
    rule = hf.tasks.NWay(hf.open(packed).test, 5, 5, 15)
    measured = 100 * hf.evaluate(name, rule, n=100, seed=1).estimate().value
    assert abs(measured - card["accuracy"]["5-way 5-shot"][0]) < 6


def cifar(source, tmp_path_factory):
    """The test classes of CIFAR-FS, packed once in a session."""
    import csv
    import zipfile

    folder = tmp_path_factory.getbasetemp() / "cifar-fs-test"
    if not (folder / "packed").is_dir():
        with zipfile.ZipFile(source / "images.zip") as archive, open(source / "test.csv", newline="") as file:
            rows = list(csv.DictReader(file))
            for row in rows:
                archive.extract(row["filename"], folder)
            with open(folder / "test.csv", "w", newline="") as out:
                writer = csv.DictWriter(out, rows[0])
                writer.writeheader()
                writer.writerows(rows)
        from handful.data.pack import make_importer, pack
        from handful.data.sources import open_source

        pack(folder, folder / "packed", make_importer("csv", open_source(folder), {}), size=32, name="cifar-fs")
    return folder / "packed"
