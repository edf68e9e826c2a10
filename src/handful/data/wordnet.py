"""Read WordNet's nouns, whose offsets are ImageNet's class ids, once from text and then from a cached array."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from handful.cache import cache_folder, datasets_folder
from handful.data.sources import ZipSource
from handful.data.taxonomy import FORMAT, Taxonomy, pack
from handful.errors import BadInput, Missing
from handful.files import read_text

NAME = "data.noun"


def places() -> Iterator[Path]:
    """Where a ``data.noun`` usually is: environment, `handful data get wordnet`, Debian, Princeton's installer, NLTK."""
    for variable in ("HANDFUL_WORDNET", "WNSEARCHDIR"):
        if os.environ.get(variable):
            yield Path(os.environ[variable])
    if os.environ.get("WNHOME"):
        yield Path(os.environ["WNHOME"]) / "dict"
    yield datasets_folder() / "wordnet" / "dict"
    for share in ("/usr/share/wordnet", "/usr/local/share/wordnet", "/usr/local/WordNet-3.0/dict"):
        yield Path(share)
    nltk = [Path(p) for p in os.environ.get("NLTK_DATA", "").split(os.pathsep) if p]
    nltk += [Path.home() / "nltk_data", Path(sys.prefix) / "nltk_data"]
    nltk += [Path(p) / "nltk_data" for p in ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib")]
    for folder in nltk:
        yield folder / "corpora" / "wordnet"
        yield folder / "corpora" / "wordnet.zip"


def find(path: str | Path | None = None) -> Path:
    """The ``data.noun`` file, or the NLTK zip that holds it."""
    for place in [Path(path)] if path is not None else places():
        if place.is_dir() and (place / NAME).is_file():
            return place / NAME
        if place.is_file():
            return place
    if path is not None:
        raise Missing(f"no {NAME} at {path}; give the file, or the folder that holds it")
    raise Missing(
        f"WordNet 3.0 ({NAME}) was not found; get it with `handful data get wordnet`, install Debian's "
        "wordnet-base or NLTK's wordnet, or point HANDFUL_WORDNET at it"
    )


def wordnet(path: str | Path | None = None, *, version: str | None = "3.0", cache: bool = True) -> Taxonomy:
    """WordNet's noun hierarchy: ``n`` + 8-digit offset ids, hypernym and instance-hypernym edges, words, glosses.

    Parameters
    ----------
    path : a ``data.noun``, its folder, or NLTK's ``wordnet.zip``; by default the usual places are searched.
    version : refuse any other version, since the ids of ImageNet are the offsets of 3.0; None takes any.
    cache : keep the parsed arrays in the cache folder and read them from there the next time.
    """
    file = find(path)
    stat = file.stat()
    key = f"{file.resolve()}|{stat.st_size}|{stat.st_mtime_ns}|{FORMAT}"
    stored = cache_folder() / f"wordnet-{hashlib.sha256(key.encode()).hexdigest()[:16]}.npz"
    made = None
    if cache and stored.is_file():
        try:
            made = Taxonomy.load(stored)
        except BadInput:
            stored.unlink(missing_ok=True)
    if made is None:
        made = parse(_read(file), name=str(file))
        if cache:
            made.save(stored)
    found = made.source.removeprefix("WordNet ")
    if version is not None and found != version:
        raise BadInput(f"{file} is WordNet {found}, but class ids are offsets of {version}; give that version's {NAME}")
    return made


def other_words(path: str | Path | None = None) -> frozenset[str]:
    """Lower-case words of WordNet's verbs, adjectives and adverbs, from the files beside ``data.noun``."""
    file = find(path)
    out: set[str] = set()
    for part in ("verb", "adj", "adv"):
        for line in _read(file, f"data.{part}").splitlines():
            if line and not line.startswith("  "):
                cells = line.split(" ")
                # An adjective may carry its syntactic place in brackets: "galore(ip)".
                out.update(
                    w.partition("(")[0].replace("_", " ").lower() for w in cells[4 : 4 + 2 * int(cells[3], 16) : 2]
                )
    return frozenset(out)


def _read(file: Path, name: str = NAME) -> str:
    if zipfile.is_zipfile(file):
        archive = ZipSource(file)
        inside = archive.named(name)
        if not inside:
            raise BadInput(f"{file} holds no {name}; give NLTK's wordnet.zip or the file itself")
        return archive.text(inside[0])
    wanted = file if name == NAME else file.with_name(name)
    try:
        return read_text(wanted)
    except FileNotFoundError as error:
        raise Missing(f"{wanted} does not exist; it comes with {NAME} in every WordNet") from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{wanted} is not a WordNet file: it is not text") from error


def parse(text: str, *, name: str = NAME) -> Taxonomy:
    """The hierarchy in the text of a ``data.noun``; the format is described in Princeton's manual page wndb(5)."""
    found = re.search(r"WordNet (\d+\.\d+)", text[:3000])
    version = found.group(1) if found else "unknown"
    offsets: list[int] = []
    children: list[int] = []
    parents: list[int] = []
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line or line.startswith("  "):
            continue
        data, _, gloss = line.partition(" | ")
        cells = data.split(" ")
        try:
            offset, n_words = int(cells[0]), int(cells[3], 16)
            if cells[2] != "n" or not 0 <= offset < 10**8:
                raise ValueError("not a noun")
            words = [word.replace("_", " ") for word in cells[4 : 4 + 2 * n_words : 2]]
            at = 4 + 2 * n_words
            for i in range(at + 1, at + 1 + 4 * int(cells[at]), 4):
                if cells[i] in ("@", "@i") and cells[i + 2] == "n":
                    children.append(offset)
                    parents.append(int(cells[i + 1][:9]))
        except (IndexError, ValueError) as error:
            raise BadInput(
                f"{name}, line {number}: not a synset of a WordNet {NAME}; give the original file"
            ) from error
        offsets.append(offset)
        lines.append("\t".join(words) + "\n" + gloss.strip())
    if not offsets:
        raise BadInput(f"{name} holds no synset; give a WordNet {NAME}")
    order = np.argsort(offsets)
    ids = np.asarray(offsets)[order]
    child, parent = np.searchsorted(ids, children), np.searchsorted(ids, parents)
    unknown = np.flatnonzero(ids[np.minimum(parent, len(ids) - 1)] != np.asarray(parents, dtype=ids.dtype))
    if len(unknown):
        raise BadInput(f"{name}: the parent {parents[unknown[0]]:08d} is not in the file; it seems cut short")
    made = Taxonomy(
        ids=np.array([f"n{offset:08d}" for offset in ids]),
        child=child.astype(np.int32),
        parent=parent.astype(np.int32),
        source=f"WordNet {version}",
        text=pack([lines[i] for i in order]),
    )
    made.check()
    return made
