"""Annotations of published data sets, archives to be got and their records, split files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fuzz.reader import Reader


def _importer(name: str, importer: str, make: Callable[[Path], object], damages: str) -> Reader:
    def read(folder: Path) -> None:
        from handful import registry
        from handful.data.sources import open_source

        registry.make("importers", importer, {}).read(open_source(folder))

    return Reader(name, make, read, damages)


def _czsl(folder: Path) -> None:
    from data.importers.pairs.test_layouts import PAIRS, czsl

    czsl(folder, PAIRS, each=2)


def _hico(folder: Path) -> None:
    from data.importers.pairs.test_layouts import hico

    hico(folder, {"train": [("a.jpg", [0]), ("b.jpg", [3])], "test": [("e.jpg", [3])]})


def _imsitu(folder: Path) -> None:
    from data.importers.pairs.test_layouts import imsitu

    imsitu(folder, [("train", "riding_1.jpg", "riding", ["n2", "n1", "n1"]), ("dev", "feeding_1.jpg", "feeding", ["n2", "n1", ""])])  # fmt: skip


def _genome(folder: Path) -> None:
    from data.importers.pairs.test_layouts import box, genome, relation

    named = [{**box("apple", 50, 50), "attributes": ["red"], "synsets": ["apple.n.01"]}]
    genome(folder, [(1, [relation("rides", "horse", 100)]), (2, [relation("feeds", "cow", 80)])], [(1, named)])


def _splits(folder: Path) -> None:
    from made.patterns import blobs

    blobs(n_classes=6, each=4, size=8).save(folder / "packed")
    names = {
        f"even/k{i:02d}" if i % 2 == 0 else f"odd/k{i:02d}": s for i, s in enumerate(("train",) * 4 + ("test",) * 2)
    }
    (folder / "split.csv").write_text("class,split\n" + "".join(f"{c},{s}\n" for c, s in names.items()))
    lists: dict[str, list[str]] = {}
    for c, s in names.items():
        lists.setdefault(s, []).append(c)
    (folder / "split.json").write_text(json.dumps(lists))


def _read_splits(folder: Path) -> None:
    from handful.data.splits import ByFile, add_scheme

    for kind in ("csv", "json"):
        add_scheme(folder / "packed", ByFile(path=str(folder / f"split.{kind}"), scheme=kind))


def _tar(layout: str) -> Reader:
    def make(folder: Path) -> None:
        from data.get import layouts

        folder.mkdir(parents=True)
        data = layouts.cifar(1)[0] if layout == "cifar-fs" else layouts.cub(3, 2)
        (folder / "archive.tar.gz").write_bytes(data)

    def read(folder: Path) -> None:
        import shutil

        from handful.data.get.prepare import prepare
        from handful.data.sources import open_source

        (folder / "made").mkdir()
        try:
            prepared = prepare(layout, folder / "made", [folder / "archive.tar.gz"])
            open_source(prepared.source)
        finally:
            shutil.rmtree(folder / "made")

    return Reader(f"get-{layout}", make, read)


def _records(folder: Path) -> None:
    from handful.data.get.record import Fetched, Record

    folder.mkdir(parents=True)
    Record("x", "mini", "folders", (Fetched("a.zip", 3, "0" * 64, "sha256", "https://x/a.zip"),), ("note",)).save(
        folder
    )


def _read_records(folder: Path) -> None:
    from handful.data.get.record import read_record

    record = read_record(folder)
    assert record is not None and all(a.file + a.sha256 and a.bytes < 10**40 for a in record.archives)
    record.save(folder)


MANIFEST = """\
[own]
title = "Own"
licence = "CC"
layout = "folders"
[[own.archive]]
file = "a.zip"
urls = ["https://example.org/a.zip"]
sha256 = "0000000000000000000000000000000000000000000000000000000000000000"
"""


def _manifest(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "m.toml").write_text(MANIFEST)


def _read_manifest(folder: Path) -> None:
    from handful.data.get.manifest import read_manifest

    found = read_manifest(folder / "m.toml")
    found.names  # noqa: B018


def _counts(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "counts.csv").write_text("class,count\nc0,100\nc1,20\n")
    (folder / "predictions.csv").write_text("truth,predicted\nc0,c1\nc1,c1\n")
    np.save(folder / "features.npy", np.ones((24, 5), np.float32))


def _read_counts(folder: Path) -> None:
    from handful.audits.context import features_of
    from handful.audits.zero_shot.semantic import read_counts
    from handful.audits.zero_shot.split_audit import read_predictions
    from made.patterns import blobs

    read_counts(folder / "counts.csv")
    read_predictions(folder / "predictions.csv")
    features_of(folder / "features.npy", blobs(n_classes=6, each=4, size=8))


def _shards(folder: Path) -> None:
    from data.test_webdataset import samples, shard

    shard(folder / "train-000.tar", {**samples(2), "x.jpg": b"x", "x.json": json.dumps({"label": "owl", "age": 3})})


def _described(folder: Path) -> None:
    from data.test_exporting import made
    from handful.data.exporting import export

    export(made(), folder, "croissant")


READERS = [
    _importer("webdataset", "webdataset", _shards, r"\.tar$"),
    _importer("croissant", "croissant", _described, r"^croissant\.json$"),
    _importer("hf", "hf", _described, r"(parquet|dataset_info\.json)$"),
    _importer("mit-states", "mit-states", _czsl, r"\.(t7|txt)$"),
    _importer("hico", "hico", _hico, r"\.mat$"),
    _importer("imsitu", "imsitu", _imsitu, r"\.json$"),
    _importer("visual-genome", "visual-genome", _genome, r"\.json$"),
    Reader("split-files", _splits, _read_splits, r"^split\."),
    _tar("cifar-fs"),
    _tar("cub"),
    Reader("got-record", _records, _read_records),
    Reader("manifest", _manifest, _read_manifest),
    Reader("audit-tables", _counts, _read_counts),
]
