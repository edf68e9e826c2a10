"""A folder with small versions of everything that the documents' commands mention, and a small world."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from documents import ROOT, files
from handful.data.collection import Card, Collection, as_table
from made.benches import small

TRAIN = (
    "n02123045 n02123159 n02085620 n02099601 n02106662 n02129165 n02129604 n02128385 n02130308 n02132136 n02134084 "
    "n02510455 n02391049 n02403003 n02504458 n02481823"
).split()
VALID = "n02114367 n02119022 n02325366 n02364673".split()
REST = (
    "n02128757 n02128925 n02133161 n02134418 n02117135 n02120079 n02326432 n02328150 n02346627 n02356798 n02396427 "
    "n02397096 n02398521 n02408429 n02410509"
).split()


def image_folders(folder: Path, classes: int = 16, each: int = 8) -> None:
    """Class folders of small colour patches."""
    for k in range(classes):
        colours = np.random.default_rng(k).integers(0, 256, (4, 4, 3))
        (folder / f"kind{k:02d}").mkdir(parents=True)
        for i in range(each):
            rng = np.random.default_rng([k, i])
            pixels = np.clip(colours.repeat(6, 0).repeat(6, 1) + rng.normal(0, 40, (24, 24, 3)), 0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(folder / f"kind{k:02d}" / f"{i}.png")


@cache
def many_classes() -> Collection:
    """Enough classes and images for twenty ways, twenty shots and twenty queries."""
    from made.patterns import blobs

    made = blobs(n_classes=60, each=41, size=16)
    table = made.table.drop("dataset", "context")
    return Collection(dataclasses.replace(made.card, name="birds", context=None), table, made.array)


def labelled(name: str, columns: dict[str, list[str]], labels: tuple[str, ...]) -> Collection:
    """Noise with the given labels."""
    n = len(next(iter(columns.values())))
    images = np.random.default_rng(0).integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    return Collection(Card(name, "images", (8, 8, 3), labels, hash="0" * 64), as_table(columns), images)


def of_data_page(folder: Path) -> None:
    """Omniglot by alphabet, ImageNet by WordNet, and an album of two data sets."""
    each = 24
    names = [(f"alphabet{a}", f"character{c}") for a in range(2) for c in range(6) for _ in range(each)]
    columns = {"alphabet": [a for a, _ in names], "character": [c for _, c in names]}
    labelled("omniglot", columns, ("alphabet", "character")).save(folder / "omniglot")
    wnids = [w for w in (*TRAIN, *REST) for _ in range(each)]
    labelled("imagenet", {"wnid": wnids}, ("wnid",)).save(folder / "imagenet")
    kinds = [(d, f"{d}{k}") for d in ("DOG", "INS") for k in range(6) for _ in range(each)]
    columns = {"dataset": [d for d, _ in kinds], "category": [k for _, k in kinds]}
    labelled("album", columns, ("category",)).save(folder / "album")


def concepts_in_contexts() -> Collection:
    """Seven concepts in four contexts."""
    rng = np.random.default_rng(0)
    concept, context = np.divmod(np.arange(28).repeat(24), 4)
    look = rng.integers(0, 256, (7, 16, 16, 3)) + rng.integers(-60, 60, (4, 16, 16, 3))[:, None]
    images = np.clip(look[context, concept] + rng.normal(0, 30, (len(concept), 16, 16, 3)), 0, 255).astype(np.uint8)
    table = as_table({"concept": [f"c{c}" for c in concept], "context": [f"x{c}" for c in context]})
    card = Card("pacs", "images", (16, 16, 3), ("concept",), context="context", hash="0" * 64)
    return Collection(card, table, images)


def omniglot(folder: Path) -> None:
    for half, alphabet in (("background", "Latin"), ("evaluation", "Angelic")):
        for c in range(2):
            for i in range(3):
                place = folder / f"images_{half}" / alphabet / f"character{c + 1:02d}"
                place.mkdir(parents=True, exist_ok=True)
                ink = np.random.default_rng([c, i]).random((105, 105)) > 0.1
                Image.fromarray(ink).save(place / f"{c + 1:04d}_{i + 1:02d}.png")


def zero_shot(folder: Path) -> None:
    """Class lists, features and word vectors of animals; needs WordNet."""
    from handful.data.wordnet import wordnet

    tree = wordnet()
    for name, classes in {"train": TRAIN, "valid": VALID, "test": REST[:5], "1-hop": REST[:5], "all": REST}.items():
        (folder / f"{name}.txt").write_text("\n".join(classes) + "\n")
    rng = np.random.default_rng(0)
    every = [*TRAIN, *VALID, *REST]
    labels = np.repeat(every, 24)
    features = rng.normal(size=(len(every), 16)).repeat(24, 0) + rng.normal(size=(len(labels), 16))
    np.savez(folder / "features.npz", features=features.astype(np.float32), labels=labels)
    known = {w for c in every for w in tree.words(c)}
    known = {part for w in known for part in re.split(r"[ _-]", w.lower())}
    vectors = (f"{w} " + " ".join(f"{v:.3f}" for v in rng.normal(size=8)) for w in sorted(known))
    (folder / "glove.6B.300d.txt").write_text("\n".join(vectors) + "\n")


def plug_in(folder: Path) -> None:
    """The how-to's own package, put on the path as an installed one would be."""
    for name, text in files((ROOT / "docs/how-to/own-method.md").read_text(encoding="utf-8")).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    import tomllib

    facts = tomllib.loads((folder / "my-method/pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = folder / "my-method" / "my_method-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {facts['name']}\nVersion: {facts['version']}\n")
    lines = []
    for group, points in facts["entry-points"].items():
        lines += [f"[{group}]", *(f"{k} = {v}" for k, v in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def make(folder: Path, page: str) -> None:
    """What one page needs."""
    small().save(folder / "packed" / "tiny")
    image_folders(folder / "photos", classes=10, each=4)
    (folder / "new").mkdir()
    for k in range(3):
        (folder / "photos" / f"kind{k:02d}" / "3.png").rename(folder / "new" / f"{k}.png")
    if page.endswith("own-data.md"):
        image_folders(folder / "birds")
    else:
        many_classes().save(folder / "birds")
    if page.endswith("encoders.md"):
        for name, text in files((ROOT / page).read_text(encoding="utf-8")).items():
            (folder / name).write_text(text, encoding="utf-8")
    if page.endswith("context-shift.md"):
        concepts_in_contexts().save(folder / "pacs")
    if page == "docs/data.md":
        of_data_page(folder)
    if "OMNIGLOT" in (ROOT / page).read_text(encoding="utf-8"):
        omniglot(folder / "omniglot")


@contextmanager
def small_world(folder: Path, made: dict[str, Path]) -> Iterator[None]:
    """The world with few classes, small images and few of them, drawn once a spec instead of image by image."""
    from handful import registry
    from handful.data.collection import open_packed
    from handful.data.world import drawn

    def opened(**knobs: Any) -> Collection:
        pair = "label" in knobs
        few = drawn.world(**{"size": 16, "images": 20 if pair else 24, "classes": 20 if pair else 40, **knobs})
        if few.spec not in made:
            made[few.spec] = few.save(folder / str(len(made))).path
        return open_packed(made[few.spec])

    real = registry.get

    def get(kind: str, name: str) -> Any:
        return opened if (kind, name) == ("collections", "world") else real(kind, name)

    get.cache_clear = real.cache_clear  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "get", get)
        patch.setattr("handful.data.world.world", lambda **knobs: drawn.world(**knobs) if knobs else opened())
        yield
    # A page may have put a plug-in on the path; its names end with it.
    real.cache_clear()
