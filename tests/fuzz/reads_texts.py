"""Texts and settings: word vectors, hierarchies, WordNet, recipes, challenges, submissions."""

from __future__ import annotations

import gzip
import io
import shutil
import zipfile
from pathlib import Path

import numpy as np

from fuzz.damage import nested
from fuzz.reader import Files, Reader

OLD = Path(__file__).parents[1] / "fixtures" / "format-0.1"
VECTORS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


def _glove(folder: Path) -> None:
    folder.mkdir(parents=True)
    text = "".join(f"w{i} {' '.join(f'{x:.4f}' for x in row)}\n" for i, row in enumerate(VECTORS))
    (folder / "v.txt").write_text(text)
    (folder / "v.txt.gz").write_bytes(gzip.compress(text.encode()))


def _word2vec(folder: Path) -> None:
    folder.mkdir(parents=True)
    data = b"6 4\n" + b"".join(b"w%d " % i + row.astype("<f4").tobytes() + b"\n" for i, row in enumerate(VECTORS))
    (folder / "v.bin").write_bytes(data)
    (folder / "v.bin.gz").write_bytes(gzip.compress(data))


def _read_words(folder: Path) -> None:
    from handful.data.words import WordVectors

    for file in sorted(folder.iterdir()):
        WordVectors.open(file).known(["w1", "w2 w3"])


def _tree(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "t.csv").write_text("child,parent\nroot,\na,root\nb,root\nc,a\nd,a\n")


def _read_tree(folder: Path) -> None:
    from handful.data.taxonomy_csv import from_csv

    from_csv(folder / "t.csv").depth  # noqa: B018


def _wordnet(folder: Path) -> None:
    from data.get.layouts import wordnet

    for name, data in wordnet().items():
        if name.endswith("data.noun"):
            (folder / "dict").mkdir(parents=True, exist_ok=True)
            (folder / "dict" / "data.noun").write_bytes(data.encode() if isinstance(data, str) else data)


def _read_wordnet(folder: Path) -> None:
    from handful.data.wordnet import wordnet

    wordnet(folder / "dict", version=None, cache=False).depth  # noqa: B018


def _recipe(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "r.toml").write_text((OLD / "recipe.toml").read_text())


def _read_recipe(folder: Path) -> None:
    from handful.runs.recipe import read_recipe

    read_recipe(str(folder / "r.toml"))


def _challenge(folder: Path) -> None:
    from handful.challenge.spec_file import TEMPLATE

    folder.mkdir(parents=True)
    (folder / "c.toml").write_text(TEMPLATE.format(name="x", title="X"))


def _read_challenge(folder: Path) -> None:
    from handful.challenge.spec_file import read

    read(folder / "c.toml")


def _submission(folder: Path) -> None:
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "s.zip", "w", zipfile.ZIP_DEFLATED) as stored:
        stored.writestr("model.py", "class MyMetaLearner: pass\nclass MyLearner: pass\n" * 20)
        stored.writestr("config.json", CONFIG)
        stored.writestr("weights/a.bin", bytes(5000))


CONFIG = (
    '{"train_data_format": "task", "batch_size": 16, "train_config": {"N": 5, "k": 1, "query_images_per_class": 5}}'
)


def _read_submission(folder: Path) -> None:
    from handful.challenge.archive import ArchiveLimits, unpack, weights_in

    limits = ArchiveLimits(archive_bytes=1 << 20, total_bytes=1 << 20, file_bytes=1 << 20, entries=50)
    try:
        unpack(folder / "s.zip", folder / "out", limits)
        weights_in(folder / "out")
    finally:
        shutil.rmtree(folder / "out", ignore_errors=True)


def _config(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(CONFIG)


def _read_config(folder: Path) -> None:
    """Read in the sandbox by the child, which tells the participant what a ConfigError says."""
    from handful.challenge.kit.cdmetadl.ingestion.data_generator import ConfigError, read_config
    from handful.errors import BadInput

    try:
        read_config(str(folder / "config.json"))
    except ConfigError as error:
        raise BadInput(str(error)) from error


def _episodes(folder: Path) -> None:
    folder.mkdir(parents=True)
    shutil.copytree(OLD / "collection", folder / "packed")
    (folder / "e.jsonl").write_bytes((OLD / "episodes.jsonl").read_bytes())


def _read_episodes(folder: Path) -> None:
    from handful.data.opening import open_collection
    from handful.tasks.files import read_episodes

    collection = open_collection(folder / "packed")
    for episode in read_episodes(folder / "e.jsonl", collection):
        episode.as_dict()
        collection.read(episode.support)


def deep_toml(name: str):
    return {
        "arrays in arrays": lambda files: {name: b"a = " + b"[" * 5000 + b"]" * 5000},
        "tables in tables": lambda files: {name: b"a = " + b"{a = " * 5000 + b"1" + b"}" * 5000},
        "a key of many parts": lambda files: {name: b".".join([b"a"] * 20000) + b" = 1"},
        "a table of many parts": lambda files: {name: b"[" + b".".join([b"a"] * 20000) + b"]\nx = 1"},
    }


def deep_json(name: str):
    def inside(files: Files) -> Files:
        import json

        return {name: json.dumps(nested(900)).encode()}

    return {
        "arrays in arrays": lambda files: {name: b"[" * 200_000 + b"]" * 200_000},
        "objects in objects": lambda files: {name: b'{"a":' * 200_000 + b"1" + b"}" * 200_000},
        "as deep as a parser goes": inside,
        "a list": lambda files: {name: b"[]"},
        "a long number": lambda files: {name: b"9" * 100_000},
    }


def _zip_bomb(files: Files) -> Files:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as stored:
        stored.writestr("model.py", bytes(1 << 28))
    return {"s.zip": out.getvalue()}


READERS = [
    Reader("glove", _glove, _read_words),
    Reader("word2vec", _word2vec, _read_words),
    Reader("taxonomy-csv", _tree, _read_tree),
    Reader("wordnet", _wordnet, _read_wordnet),
    Reader("recipe", _recipe, _read_recipe, known=deep_toml("r.toml")),
    Reader("challenge", _challenge, _read_challenge, known=deep_toml("c.toml")),
    Reader("submission", _submission, _read_submission, known={"a bomb": _zip_bomb}),
    Reader("submission-config", _config, _read_config, known=deep_json("config.json")),
    Reader("episodes", _episodes, _read_episodes, r"jsonl$", known=deep_json("e.jsonl")),
]
