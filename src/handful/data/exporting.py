"""A collection for other programs: class folders of PNGs, Parquet files for Hugging Face `datasets`, and Croissant beside them.

Pixels are kept exactly (PNG). Splits are those of one scheme; licence and citation go into ``README.md`` and what else says them.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from handful.data.collection import Collection, Part
from handful.data.parquet_out import hf_file, hf_split, pictures, write_croissant, write_parquet
from handful.errors import BadInput, nearest, require
from handful.files import fresh_folder
from handful.progress import Advance, bar

KINDS = ("hf", "folders", "croissant")
LICENCES = ("mit", "apache-2.0", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-3.0", "bsd-3-clause")
"""Names of licences that the hub knows; others are given as they are."""
_UNSAFE = re.compile(r'[/\\:*?"<>|%\x00-\x1f]|^[.~ ]|[. ]$|^(?=__)')


@dataclass(frozen=True)
class Exported:
    """What was written: images by split, and what there was to say."""

    folder: Path
    images: dict[str, int]
    notes: tuple[str, ...] = ()


def export(collection: Collection, target: str | os.PathLike[str], kind: str, *, scheme: str | None = None) -> Exported:
    """Write ``collection`` into the folder ``target``, which must not be there; it appears whole or not at all.

    Parameters
    ----------
    kind
        ``folders`` (SPLIT/CLASS/number.png), ``hf`` (Parquet files by split that `datasets.load_dataset` and ``--as hf``
        read), or ``croissant`` (the same files with ``croissant.json``).
    scheme
        Whose splits; the collection's first by default.
    """
    if kind not in KINDS:
        raise BadInput(f"collections are exported as {', '.join(KINDS)}, not as {kind!r}; {nearest(kind, KINDS)}")
    if collection.card.kind != "images":
        raise BadInput(f"{collection.id} holds features, not images; save() keeps it as it is")
    goal = Path(target)
    if goal.exists():
        raise BadInput(f"{goal} exists; name another folder or remove it first")
    parts, notes = _parts(collection, scheme)
    images = {split: len(part) for split, part in parts.items()}
    with bar(f"exporting {collection.card.name}", sum(images.values())) as advance, fresh_folder(goal) as folder:
        if kind == "folders":
            _folders(folder, parts, advance)
        else:
            require("pyarrow", "datasets")
            # MLCommons' own reader takes a record set from one file.
            files = write_parquet(folder, collection, parts, advance, sharded=kind == "hf")
            if kind == "croissant":
                write_croissant(folder, collection, files)
        (folder / "README.md").write_text(readme(collection, images, kind), encoding="utf-8")
    return Exported(goal, images, notes)


def _parts(collection: Collection, scheme: str | None) -> tuple[dict[str, Part], tuple[str, ...]]:
    """The images of each split; all under no name where there are none."""
    if scheme is None and not collection.card.schemes:
        return {"": collection.whole}, ()
    scheme = scheme or collection.card.schemes[0]
    if scheme not in collection.card.schemes:
        raise BadInput(
            f"{collection.card.name} has no split scheme {scheme!r}; {nearest(scheme, collection.card.schemes)}"
        )
    found = collection.table[scheme].fill_null("")
    parts = {split: collection.part(split, scheme) for split in sorted(set(found.to_list()) - {""})}
    if not parts:
        return {"": collection.whole}, ()
    outside = int((found == "").sum())
    said = f"{outside} images in no split of {scheme} were left out"
    return parts, (said,) if outside else ()


def _folders(folder: Path, parts: dict[str, Part], advance: Advance) -> None:
    for split, part in parts.items():
        for name in (places := [folder / split / safe_name(c) for c in part.class_names]):
            name.mkdir(parents=True, exist_ok=True)
        for row, code, data in zip(part.rows, part.classes, pictures(part, part.rows, advance), strict=True):
            (places[code] / f"{row:07d}.png").write_bytes(data)


def safe_name(name: str) -> str:
    """A class as the name of a folder on any system: what cannot be in one is written as %2F; different names stay so."""
    safe = _UNSAFE.sub(lambda found: "".join(f"%{b:02X}" for b in found[0].encode()) or "%", name) or "%"
    if len(safe.encode()) > 240:
        raise BadInput(f"the class {name[:60]!r}... is too long for the name of a folder; export as hf")
    return safe


def readme(collection: Collection, images: dict[str, int], kind: str) -> str:
    """A data card: what it is, how many images, its licence, how to cite it; with the hub's header for Parquet files."""
    card = collection.card
    head: list[str] = []
    if kind != "folders":
        known = card.licence.strip().lower().replace(" ", "-")
        licence = (
            [f"license: {known}"] if known in LICENCES else ["license: other", f"license_name: {_line(card.licence)}"]
        )
        files = [
            line
            for split in images
            for line in (f"  - split: {hf_split(split)}", f'    path: "data/{hf_file(split)}-*.parquet"')
        ]
        head = ["---", *licence, f"pretty_name: {_line(card.name)}", "configs:", "- config_name: default"]
        head += ["  data_files:", *files, "---", ""]
    side = "x".join(map(str, card.shape))
    lines = [
        f"# {card.name}",
        "",
        f"{sum(images.values())} images of {side}, version {card.version}, {collection.id}.",
        "",
    ]
    lines += [f"- {split or 'all'}: {n} images" for split, n in images.items()]
    lines += ["", f"Class: {' x '.join(card.labels)}. Licence: {card.licence}.", ""]
    if card.citation:
        lines += ["## Citation", "", "```bibtex", card.citation.replace("```", ""), "```", ""]
    return "\n".join([*head, *lines])


def _line(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
