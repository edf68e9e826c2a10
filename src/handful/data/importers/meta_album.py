"""Meta-Album's layout: data sets with images/, labels.csv and info.json, one or many."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, ClassVar

from handful.data.importers import Importer, Item, Listing, images_or_refuse, split_name
from handful.data.importers.csv import read_table
from handful.data.sources import Source, is_image_name
from handful.errors import BadInput, nearest
from handful.files import parse_json


@dataclass(frozen=True)
class MetaAlbum(Importer):
    """Ullah et al.: Meta-Album, NeurIPS Datasets and Benchmarks 2022; the layout of Cross-Domain MetaDL (2022).

    Every folder with a ``labels.csv`` is a data set. ``info.json`` names the columns of file and category (FILE_NAME and
    CATEGORY by default) and the images' folder (``images``). Columns ``dataset``, ``category`` (the class) and
    ``super_category``. ``info/meta_splits.txt`` (JSON: meta-train, meta-test, perhaps meta-valid, each a list of data sets)
    becomes the scheme ``datasets``.

    Parameters
    ----------
    unlabelled
        ``refuse`` images that labels.csv does not name, or ``skip`` them.
    """

    unlabelled: str = "refuse"

    name: ClassVar[str] = "meta-album"
    size: ClassVar[int] = 128
    grey: ClassVar[bool] = False

    def read(self, source: Source) -> Listing:
        if self.unlabelled not in ("refuse", "skip"):
            raise BadInput(f"meta-album: unlabelled must be 'refuse' or 'skip', not {self.unlabelled!r}")
        images_or_refuse(source)
        tables = source.named("labels.csv")
        if not tables:
            raise BadInput(f"{source.path} holds no labels.csv; give a Meta-Album data set, or a folder of them")
        items: list[Item] = []
        notes: list[str] = []
        names: dict[str, str] = {}
        for table in tables:
            root = table.rpartition("/")[0]
            info = self._info(source, root)
            dataset = str(info.get("dataset_name") or PurePosixPath(root).name or source.path.stem)
            if dataset in names:
                raise BadInput(
                    f"{source.where(table)} and {source.where(names[dataset])} are both data set {dataset!r}; rename one"
                )
            names[dataset] = table
            items += self._dataset(source, table, root, dataset, info, notes)
        split = self._splits(source, set(names))
        if split:
            items = [Item(i.file, i.columns, {"datasets": split.get(i.columns["dataset"], "")}) for i in items]
        return Listing(items, ("category",), ("datasets",) if split else (), notes=tuple(notes))

    def _info(self, source: Source, root: str) -> dict[str, Any]:
        name = f"{root}/info.json" if root else "info.json"
        if name not in source.names:
            return {}
        try:
            info = parse_json(source.text(name))
        except ValueError as error:
            raise BadInput(f"{source.where(name)} is not JSON ({error}); repair it") from error
        if not isinstance(info, dict):
            raise BadInput(
                f"{source.where(name)} must hold a JSON object with image_column_name and category_column_name"
            )
        return info

    def _dataset(
        self, source: Source, table: str, root: str, dataset: str, info: dict[str, Any], notes: list[str]
    ) -> list[Item]:
        file_column = str(info.get("image_column_name") or "FILE_NAME")
        class_column = str(info.get("category_column_name") or "CATEGORY")
        header, rows = read_table(source, table)
        for column in (file_column, class_column):
            if column not in header:
                raise BadInput(f"{source.where(table)} has no column {column!r}; {nearest(column, header)}")
        prefix = "/".join(p for p in (root, str(info.get("image_path") or "images").strip("/")) if p) + "/"
        there = {n for n in source.names if n.startswith(prefix) and is_image_name(n)}
        items, used = [], set()
        for line, row in rows:
            file, where = prefix + row[file_column], f"{source.where(table)}, line {line}"
            if file not in there:
                raise BadInput(
                    f"{where}: {row[file_column]} is not in {source.where(prefix)}; add the file or remove the line"
                )
            if file in used:
                raise BadInput(f"{where}: {row[file_column]} is listed twice; remove one line")
            if not row[class_column]:
                raise BadInput(f"{where} has no {class_column}; fill it in")
            used.add(file)
            columns = {"dataset": dataset, "category": row[class_column]}
            if "SUPER_CATEGORY" in header:
                columns["super_category"] = row["SUPER_CATEGORY"]
            items.append(Item(file, columns))
        if spare := sorted(there - used):
            text = (
                f"{source.where(table)} labels {len(used)} of {len(there)} images, not {spare[0].removeprefix(prefix)}"
            )
            if self.unlabelled == "refuse":
                raise BadInput(f"{text}; complete it, or leave the unlabelled images out with unlabelled=skip")
            notes.append(f"{text}; left out")
        return items

    def _splits(self, source: Source, names: set[str]) -> dict[str, str]:
        files = [f for f in source.named("meta_splits.txt") if PurePosixPath(f).parent.name == "info"]
        if not files:
            return {}
        where = source.where(files[0])
        try:
            lists = parse_json(source.text(files[0]))
        except ValueError as error:
            raise BadInput(f"{where} is not JSON ({error}); repair it") from error
        if not isinstance(lists, dict) or not all(isinstance(v, list) for v in lists.values()):
            raise BadInput(f'{where} must look like {{"meta-train": [data sets], "meta-test": [data sets]}}')
        split: dict[str, str] = {}
        for key, members in lists.items():
            for member in map(str, members):
                if member not in names:
                    raise BadInput(f"{where}: there is no data set {member!r}; {nearest(member, names)}")
                if split.setdefault(member, split_name(key, where)) != split_name(key, where):
                    raise BadInput(f"{where}: {member} is in two splits; keep one")
        return split
