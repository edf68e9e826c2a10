"""What Hugging Face `datasets` saves: a folder of `save_to_disk`, Parquet files with images in them, a name on the hub."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Literal

import polars as pl

from handful.data.importers import Importer, Item, Listing, split_in, split_name
from handful.data.importers.csv import LABEL_COLUMNS
from handful.data.sources import FolderSource, Source, open_source
from handful.data.tables import ColumnTable
from handful.errors import BadInput, nearest, require
from handful.files import WRONG, parse_json
from handful.hub import reach_hub
from handful.progress import bar

_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@dataclass(frozen=True)
class HuggingFaceTables(Importer):
    """Tables with a column of images: Parquet files (``train-00000-of-00002.parquet``), or Arrow files as ``Dataset.save_to_disk`` and
    ``DatasetDict.save_to_disk`` write them.

    Splits are named by files and folders; numbers of classes become the names that the file or ``dataset_info.json`` gives them. All
    columns of text and numbers are kept. No code of a data set is ever run. A name that is no folder here
    (``uoft-cs/cifar100``) is fetched from the hub as Parquet files, with the extra ``handful[datasets]``.

    Parameters
    ----------
    image
        The column of images, if there are several.
    labels
        Columns that make the class, joined by commas; unless given, the only one with named classes, or the one called
        label, class or category.
    context
        The column of contexts, if there is one.
    split
        A column of splits, where neither files nor folders are named by split.
    only
        Read only the tables below this folder: a data set of several configurations has one for each.
    unlabelled
        What becomes of rows without a class (-1 in test sets): ``refuse``, or ``skip`` to leave them out.
    """

    image: str = ""
    labels: str = ""
    context: str = ""
    split: str = "split"
    only: str = ""
    unlabelled: Literal["refuse", "skip"] = "refuse"

    name: ClassVar[str] = "hf"
    size: ClassVar[int] = 84
    grey: ClassVar[bool] = False

    def open(self, source: Path) -> Source:
        named = source.as_posix()
        if source.exists() or not _NAME.fullmatch(named):
            return open_source(source)
        return FolderSource(fetched(named))

    def read(self, source: Source) -> Listing:
        names = [n for n in tables_of(source) if n.startswith(self.only and self.only.rstrip("/") + "/")]
        if not names:
            where = f"{source.path}/{self.only}" if self.only else str(source.path)
            raise BadInput(
                f"{where} holds no .parquet or .arrow files; give the folder that save_to_disk or to_parquet wrote"
            )
        info = _info(source, names[0])
        licence, citation = _said(info, "license") or "unknown", _said(info, "citation")
        return self.listing(source, {n: split_in(n) for n in names}, {}, licence, citation)

    def listing(
        self, source: Source, splits: dict[str, str], features: dict[str, Any], licence: str, citation: str
    ) -> Listing:
        """The rows of tables, each of a split (or none); ``features`` says what columns are where the tables do not."""
        items: list[Item] = []
        first: tuple[str, pl.Schema] | None = None
        chosen: tuple[str, tuple[str, ...]] | None = None
        scheme, left_out = any(splits.values()), 0
        with bar(f"reading {source.path.name}", len(splits)) as advance:
            for name in splits:
                table, where = source.table(name), source.where(name)
                table.check()
                schema = table.schema
                known = table.features or features or _features(_info(source, name), where)
                if first is None or chosen is None:
                    first = (where, schema)
                    chosen = self._columns(schema, known, where)
                    scheme |= self.split in schema
                elif schema.names() != first[1].names():
                    raise BadInput(
                        f"{where} has columns {', '.join(schema)}, {first[0]} {', '.join(first[1])}; "
                        "choose the tables of one kind with --set only=FOLDER"
                    )
                rows, lost = self._rows(source, name, table, *chosen, known, splits[name] if scheme else None)
                items += rows
                left_out += lost
                advance(1)
        assert chosen is not None
        notes = (f"{left_out} rows without a class were left out",) if left_out else ()
        schemes = ("split",) if scheme else ()
        context = self.context or None
        return Listing(items, chosen[1], schemes, context, licence=licence, citation=citation, notes=notes)

    def _columns(self, schema: pl.Schema, features: dict[str, Any], where: str) -> tuple[str, tuple[str, ...]]:
        """The columns of images and of classes; asked for where there is a choice."""
        images = [c for c, t in schema.items() if _is_image(t)]
        if self.image and self.image not in images:
            raise BadInput(f"{where} has no column of images {self.image!r}; {nearest(self.image, images)}")
        if not images:
            raise BadInput(
                f"{where} has no column of images among {', '.join(schema)}; an image is bytes, or bytes and path"
            )
        if len(images) > 1 and not self.image:
            raise BadInput(f"{where} has columns of images {', '.join(images)}; say which: --set image={images[0]}")
        plain = [c for c, t in schema.items() if _is_plain(t) and c not in (self.context, self.split)]
        if self.context and self.context not in schema:
            raise BadInput(f"{where} has no column {self.context!r}; {nearest(self.context, plain)}")
        if self.labels:
            wanted = tuple(c.strip() for c in self.labels.split(","))
            for column in wanted:
                if column not in plain:
                    raise BadInput(f"{where} has no column {column!r}; {nearest(column, plain)}")
            return self.image or images[0], wanted
        named = [c for c in plain if _class_names(features, c)]
        called = [c for wanted in LABEL_COLUMNS for c in plain if c.lower() == wanted]
        choice = named if len(named) == 1 else called[:1] if called else named or plain
        if not choice:
            raise BadInput(f"{where} has no column of classes beside the images; add one of text or numbers")
        if len(choice) > 1:
            raise BadInput(
                f"{where} has columns {', '.join(choice)}, of which any may be the class; say which: "
                f"--set labels={choice[0]} (or labels={choice[0]},{choice[1]} for pairs)"
            )
        return self.image or images[0], (choice[0],)

    def _rows(
        self,
        source: Source,
        name: str,
        table: ColumnTable,
        image: str,
        labels: Sequence[str],
        features: dict[str, Any],
        split: str | None,
    ) -> tuple[list[Item], int]:
        where = source.where(name)
        plain = [c for c, t in table.schema.items() if _is_plain(t)]
        columns = {c: _as_text(table.columns([c])[c], _class_names(features, c), where) for c in plain}
        own = columns.pop(self.split, None)
        files = _files(source, name, table, image)
        items, lost = [], 0
        for row in range(len(files) if files else table.height):
            values = {c: v for c, texts in columns.items() if (v := texts[row]) is not None}
            if missing := [c for c in labels if not values.get(c)]:
                if self.unlabelled == "refuse":
                    raise BadInput(
                        f"{where}, row {row} has no {missing[0]}; label it, or leave such rows out with unlabelled=skip"
                    )
                lost += 1
                continue
            splits = {}
            if split is not None:
                splits = {"split": split or (split_name(own[row] or "", f"{where}, row {row}") if own else "")}
            items.append(Item(files[row] if files else f"{name}/{image}/{row}", values, splits))
        return items, lost


def fetched(name: str) -> Path:
    """The Parquet files of a data set on the hub: its own, else those that the hub makes of every data set."""
    hub = require("huggingface_hub", "datasets")
    wanted: dict[str, Any] = {"repo_type": "dataset", "allow_patterns": ["*.parquet", "dataset_info.json"]}
    for revision in ("main", "refs/convert/parquet"):
        try:
            folder = Path(hub.snapshot_download(name, revision=revision, local_files_only=True, **wanted))
            if any(folder.rglob("*.parquet")):
                return folder
        except (OSError, ValueError):  # not in the cache
            pass
    reach_hub(f"the data set {name}")
    try:
        for revision in ("main", "refs/convert/parquet"):
            folder = Path(hub.snapshot_download(name, revision=revision, **wanted))
            if any(folder.rglob("*.parquet")):
                return folder
    except (OSError, ValueError) as error:  # whatever the hub answers is one of these
        raise BadInput(
            f"{name} cannot be had from the hub ({str(error).splitlines()[0][:200]}); check the name"
        ) from error
    raise BadInput(f"{name} has no Parquet files on the hub; download it, and give the folder")


def tables_of(source: Source) -> list[str]:
    """The tables of a source: those that ``state.json`` lists where it does, and never the caches of `datasets`."""
    stated = {str(PurePosixPath(n).parent): _json(source, n) for n in source.named("state.json")}
    names = []
    for name in source.tables:
        folder, file = str(PurePosixPath(name).parent), PurePosixPath(name).name
        listed = stated.get(folder, {}).get("_data_files")
        if not file.startswith("cache-") and (
            not isinstance(listed, list) or file in [f.get("filename") for f in listed if isinstance(f, dict)]
        ):
            names.append(name)
    return names


def _info(source: Source, table: str) -> dict[str, Any]:
    """``dataset_info.json`` beside a table, or at the top."""
    beside = str(PurePosixPath(table).parent / "dataset_info.json")
    found = [n for n in (beside, "dataset_info.json") if n in source.names]
    return _json(source, found[0]) if found else {}


def _json(source: Source, name: str) -> dict[str, Any]:
    try:
        return dict(parse_json(source.text(name)))
    except WRONG as error:
        raise BadInput(
            f"{source.where(name)} is not JSON with names and values ({error}); save the data set again"
        ) from error


def _features(info: dict[str, Any], where: str) -> dict[str, Any]:
    found = info.get("features") or {}
    if not isinstance(found, dict):
        raise BadInput(f"dataset_info.json of {where} has features that are no table; save the data set again")
    return found


def _said(info: dict[str, Any], key: str) -> str:
    text = info.get(key)
    return text.strip() if isinstance(text, str) else ""


def _class_names(features: dict[str, Any], column: str) -> list[str]:
    """The names of a column's classes, by number; empty if it has none."""
    about = features.get(column)
    names = about.get("names") if isinstance(about, dict) and about.get("_type") == "ClassLabel" else None
    return [str(n) for n in names] if isinstance(names, list) else []


def _is_image(kind: pl.DataType) -> bool:
    return kind == pl.Binary or (
        isinstance(kind, pl.Struct) and {"bytes"} <= {f.name for f in kind.fields} <= {"bytes", "path"}
    )


def _is_plain(kind: pl.DataType) -> bool:
    return kind in (pl.String, pl.Boolean, pl.Categorical) or kind.is_numeric() or isinstance(kind, pl.Enum)


def _as_text(values: pl.Series, names: list[str], where: str) -> list[str | None]:
    if not names:
        return values.cast(pl.String).to_list()
    if not values.dtype.is_integer():
        raise BadInput(f"{where}: column {values.name} holds {values.dtype}, not the numbers of its named classes")
    if (values >= len(names)).any():
        raise BadInput(f"{where}: column {values.name} has class {values.max()!r}, and there are {len(names)} names")
    return [None if v is None or v < 0 else names[v] for v in values.to_list()]


def _files(source: Source, name: str, table: ColumnTable, image: str) -> list[str]:
    """Where a table has paths in place of bytes: the files they mean, beside the table or at the top."""
    kind = table.schema[image]
    if not isinstance(kind, pl.Struct) or "path" not in kind.to_schema() or table.holds_bytes(image):
        return []
    known = set(source.names)
    found = []
    for row, path in enumerate(table.paths(image)):
        beside = str(PurePosixPath(name).parent / (path or ""))
        at = next((n for n in (beside, path) if n in known), None)
        if at is None:
            raise BadInput(
                f"{source.where(name)}, row {row}: the image {path!r} is neither in the table nor in {source.path}; "
                "save the data set with its images (embed_external_files=True), or add the file"
            )
        found.append(at)
    return found
