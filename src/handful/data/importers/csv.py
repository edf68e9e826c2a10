"""A CSV of image paths and label columns, with a split column or one CSV a split."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from handful.data.importers import SPLIT_NAMES, Importer, Item, Listing, images_or_refuse, split_name
from handful.data.sources import Source
from handful.errors import BadInput, nearest

LABEL_COLUMNS = ("label", "class", "category", "labels", "class_name", "label_name")
DELIMITERS = (",", ";", "\t")
PATH_COLUMNS = ("filename", "file_name", "file", "path", "image", "image_path", "image_name", "filepath")


@dataclass(frozen=True)
class Csv(Importer):
    """Tables beside (or above) the images.

    ``train.csv``, ``val.csv`` and ``test.csv`` are one CSV a split, as miniImageNet has them (Ravi and Larochelle, ICLR
    2017); any other CSV may have a column ``split``. All columns but path and split become label columns. A path is taken
    relative to the CSV, to the source, or as the end of one file's name.

    Parameters
    ----------
    file
        The column of paths; found by name (filename, file, path, image, ...) unless given.
    labels
        Columns that make the class, joined by commas; unless given, the one called label, class or category, or the only
        one beside the paths.
    context
        The column of contexts, if there is one.
    split
        The column of splits.
    encoding
        Of the tables, such as ``cp1252``; UTF-8 (or UTF-16, where the file says so) unless given. Fields may be parted by
        commas, semicolons or tabs.
    """

    file: str = ""
    labels: str = ""
    context: str = ""
    split: str = "split"
    encoding: str = ""

    name: ClassVar[str] = "csv"
    size: ClassVar[int] = 84
    grey: ClassVar[bool] = False

    def read(self, source: Source) -> Listing:
        tables = [n for n in source.names if n.lower().endswith(".csv")]
        if not tables:
            raise BadInput(f"{source.path} holds no .csv; put the table of paths and labels there")
        shallow = min(n.count("/") for n in tables)
        tables = [n for n in tables if n.count("/") == shallow]
        by_split = {n: SPLIT_NAMES[s] for n in tables if (s := PurePosixPath(n).stem.lower()) in SPLIT_NAMES}
        if by_split:
            tables = list(by_split)
        elif len(tables) > 1:
            raise BadInput(
                f"{source.path} holds {len(tables)} tables ({', '.join(tables[:4])}); keep one, or name them by split"
            )
        find = Finder(source)
        items: list[Item] = []
        places: list[str] = []
        columns: list[str] | None = None
        has_split = bool(by_split)
        for table in tables:
            header, rows = read_table(source, table, self.encoding)
            path_column = self._path_column(header, source.where(table))
            own = [h for h in header if h not in (path_column, self.split)]
            if columns is not None and own != columns:
                raise BadInput(
                    f"{source.where(table)} has columns {', '.join(own)}, the other tables {', '.join(columns)}"
                )
            columns = own
            has_split |= self.split in header
            for line, row in rows:
                where = f"{source.where(table)}, line {line}"
                split = by_split.get(table) or split_name(row.get(self.split, ""), where)
                file = find(row[path_column], table, where)
                items.append(Item(file, {c: row[c] for c in own}, {self.split: split} if has_split else {}))
                places.append(where)
        if not items:
            raise BadInput(f"{', '.join(tables)} of {source.path} list no images; add a row for each")
        labels = self._labels(columns or [], source.where(tables[0]))
        for item, where in zip(items, places, strict=True):
            if empty := [c for c in labels if not item.columns[c]]:
                raise BadInput(f"{where} has no {empty[0]}; fill it in")
        used, images = len({i.file for i in items}), len(find.images)
        notes = (f"{images - used} of {images} images are in no table and were left out",) if images > used else ()
        if self.context and self.context not in (columns or []):
            raise BadInput(
                f"{source.where(tables[0])} has no column {self.context!r}; {nearest(self.context, columns or [])}"
            )
        return Listing(items, labels, (self.split,) if has_split else (), self.context or None, notes=notes)

    def _path_column(self, header: Sequence[str], where: str) -> str:
        if self.file:
            if self.file not in header:
                raise BadInput(f"{where} has no column {self.file!r}; {nearest(self.file, header)}")
            return self.file
        for column in header:
            if column.lower() in PATH_COLUMNS:
                return column
        raise BadInput(
            f"{where} has no column of paths (such as filename) among {', '.join(header)}; name it with file=COLUMN"
        )

    def _labels(self, columns: Sequence[str], where: str) -> tuple[str, ...]:
        if self.labels:
            wanted = tuple(c.strip() for c in self.labels.split(","))
            for column in wanted:
                if column not in columns:
                    raise BadInput(f"{where} has no column {column!r}; {nearest(column, columns)}")
            return wanted
        rest = [c for c in columns if c != self.context]
        named = [c for wanted in LABEL_COLUMNS for c in rest if c.lower() == wanted]
        if not rest:
            raise BadInput(f"{where} has no label column beside the paths; add one")
        if not named and len(rest) > 1:
            raise BadInput(
                f"{where} has columns {', '.join(rest)}, of which any may be the class; say which: --set labels={rest[0]} "
                f"(or labels={rest[0]},{rest[1]} for pairs)"
            )
        return ((named or rest)[0],)


def read_table(
    source: Source, table: str, encoding: str = ""
) -> tuple[list[str], Iterator[tuple[int, dict[str, str]]]]:
    """Header and rows (with their line numbers) of a CSV; rows that do not fit the header are refused."""
    where = source.where(table)
    text = source.text(table, encoding, "save the file as UTF-8, or say what it is, such as --set encoding=cp1252")
    first = text.split("\n", 1)[0]
    reader = csv.reader(io.StringIO(text), delimiter=max(DELIMITERS, key=first.count), strict=True)
    try:
        header = [h.strip() for h in next(reader, [])]
    except csv.Error as error:
        raise BadInput(f"{where}, line {reader.line_num} is not CSV ({error})") from error
    if not header or len(set(header)) != len(header) or not all(header):
        raise BadInput(f"{where} needs a header line of distinct column names")

    def rows() -> Iterator[tuple[int, dict[str, str]]]:
        try:
            for row in reader:
                if not row:
                    continue
                if len(row) != len(header):
                    raise BadInput(
                        f"{where}, line {reader.line_num} has {len(row)} fields, the header {len(header)}; fix the line"
                    )
                yield reader.line_num, dict(zip(header, (v.strip() for v in row), strict=True))
        except csv.Error as error:
            raise BadInput(f"{where}, line {reader.line_num} is not CSV ({error}); fix the line") from error

    return header, rows()


class Finder:
    """Finds the file a table means."""

    def __init__(self, source: Source):
        self.source, self.names = source, set(source.names)
        self.images = images_or_refuse(source)
        self.by_last: dict[str, list[str]] = {}
        for name in self.images:
            self.by_last.setdefault(PurePosixPath(name).name, []).append(name)

    def __call__(self, text: str, table: str, where: str) -> str:
        path = PurePosixPath(text.replace("\\", "/"))
        if not text or path.is_absolute() or ".." in path.parts:
            raise BadInput(f"{where}: {text!r} is not a path inside {self.source.path}; write it relative to the table")
        wanted = str(path)
        beside = str(PurePosixPath(table).parent / path)
        for name in (beside, wanted):
            if name in self.names:
                return name
        found = [n for n in self.by_last.get(path.name, []) if n.endswith("/" + wanted)]
        if len(found) == 1:
            return found[0]
        if found:
            raise BadInput(f"{where}: {text} could be {found[0]} or {found[1]}; write the whole path")
        raise BadInput(f"{where}: {text} does not exist in {self.source.path}; add the file or remove the line")
