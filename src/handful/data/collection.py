"""Collections: packed images (or features), one table of labels, a card.

A collection on disk is a folder with ``card.json``, ``labels.parquet`` and ``images.npy`` (or ``features.npy``); opening
maps the array and reads nothing. A Part is a collection under one split of one split scheme.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import polars as pl

from handful import registry
from handful.data.store import OVER, over_hash, read_over, read_packed, write_collection
from handful.errors import BadInput, nearest
from handful.files import WRONG, read_json
from handful.options import check, parse_spec

if TYPE_CHECKING:
    from handful.data.torch_view import TorchView

Kind = Literal["images", "features"]
SPLITS = ("train", "valid", "test", "test_seen")

# Beside columns of any name that a person may give.
_CODE = "\0code"


@dataclass(frozen=True)
class Card:
    """What a collection says of itself.

    Parameters
    ----------
    labels
        The columns whose tuple of values is the class.
    schemes
        Columns that hold a split name per image; the first is the default scheme.
    context
        The column of contexts (backgrounds, styles), if there is one.
    citation
        How its makers want to be cited, as text or BibTeX.
    """

    name: str
    kind: Kind
    shape: tuple[int, ...]
    labels: tuple[str, ...]
    version: str = "1"
    licence: str = "unknown"
    schemes: tuple[str, ...] = ()
    context: str | None = None
    taxonomy: str | None = None
    source: str = ""
    hash: str = ""
    citation: str = ""

    @classmethod
    def read(cls, path: Path) -> Card:
        try:
            card = cls(**check(cls, dict(read_json(path)), "the card"))
            if not card.shape or min(card.shape) < 1 or not card.labels:
                raise ValueError("shape or labels are missing")
            if len(set(card.labels)) != len(card.labels):
                raise ValueError("a column of labels is named twice")
            return card
        except (OSError, BadInput, *WRONG) as error:
            raise BadInput(f"{path} is not the card of a packed collection ({error}); pack it again") from error

    def text(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1, ensure_ascii=False) + "\n"


class Collection:
    """Images or features with labels.

    Parameters
    ----------
    card
        Name, kind, label columns; see `Card`.
    table
        One row per image, one column per factor.
    array
        ``(n, h, w, c)`` uint8 or ``(n, d)`` float, perhaps memory-mapped. Subclasses that draw on demand override `read`.
    over, mask
        Instead of an array: the collection that holds the images, and which of its rows these are.
    """

    rule: dict[str, Any] | None = None
    """The rule that its tasks are meant to be drawn by, where it names one, as `registry.make` takes it."""

    def __init__(
        self,
        card: Card,
        table: pl.DataFrame,
        array: np.ndarray | None = None,
        path: Path | None = None,
        over: Collection | None = None,
        mask: np.ndarray | None = None,
    ):
        if over is not None:
            array, length = over.array, len(np.asarray(mask))
        else:
            length = len(table) if array is None else len(array)
        self.card, self.table, self.path, self.over, self.mask = card, table, path, over, mask
        self.array: np.ndarray | None = array
        for column in (*card.labels, *card.schemes, *([card.context] if card.context else [])):
            if column not in table.columns:
                raise BadInput(f"{card.name}: the card names column {column!r}; {nearest(column, table.columns)}")
        if length != len(table):
            raise BadInput(f"{path or card.name}: {len(table)} rows of labels for {length} images; pack it again")

    @property
    def id(self) -> str:
        size = self.card.shape[0] if self.card.kind == "images" else self.card.shape[-1]
        return f"{self.card.name}@{self.card.version}/{size}#{self.card.hash[:12]}"

    @property
    def spec(self) -> str:
        """What `handful.open` takes to get this collection again."""
        if self.path is None:
            raise BadInput(f"{self.card.name} lives in this process's memory only; save it first")
        return str(self.path)

    @property
    def place(self) -> str | None:
        """Where to open the collection again from any folder; None if it lives in memory alone."""
        try:
            return self.spec if self.path is None else str(self.path.resolve())
        except BadInput:
            return None

    def __reduce__(self) -> Any:
        if self.path is None:
            return type(self), (
                self.card,
                self.table,
                None if self.over is not None else self.array,
                None,
                self.over,
                self.mask,
            )
        return open_packed, (self.path,)

    def __len__(self) -> int:
        return len(self.table)

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Pixels (or features) of the given image numbers."""
        if self.over is not None and self.mask is not None:
            return self.over.read(self.mask[np.asarray(rows, dtype=np.int64)])
        assert self.array is not None
        return np.asarray(self.array[np.asarray(rows, dtype=np.int64)])

    def part(self, split: str | None = None, scheme: str | None = None) -> Part:
        """The images of one split (all of them without a split)."""
        if split is None:
            return Part(self, "", "all", np.arange(len(self)))
        if scheme is None:
            if not self.card.schemes:
                raise BadInput(f"{self.card.name} has no splits; make some with: handful data split")
            scheme = self.card.schemes[0]
        if scheme not in self.card.schemes:
            raise BadInput(f"{self.card.name} has no split scheme {scheme!r}; {nearest(scheme, self.card.schemes)}")
        rows = np.flatnonzero((self.table[scheme] == split).fill_null(False).to_numpy())
        if not len(rows):
            known = sorted(x for x in self.table[scheme].unique().to_list() if x)
            raise BadInput(f"{self.card.name} has no images in split {split!r} of {scheme!r}; {nearest(split, known)}")
        return Part(self, scheme, split, rows)

    def rows_part(self, scheme: str, split: str, packed: str) -> Part:
        """A part from its `Part.packed_rows`."""
        steps = np.frombuffer(zlib.decompress(base64.b64decode(packed)), "<i8")
        return Part(self, scheme, split, np.cumsum(steps))

    @property
    def train(self) -> Part:
        return self.part("train")

    @property
    def valid(self) -> Part:
        return self.part("valid")

    @property
    def test(self) -> Part:
        return self.part("test")

    @property
    def whole(self) -> Part:
        return self.part()

    def has(self, split: str) -> bool:
        return bool(self.card.schemes) and bool((self.table[self.card.schemes[0]] == split).any())

    def torch(
        self, split: str | None = None, scheme: str | None = None, transform: Callable[[Any], Any] | None = None
    ) -> TorchView:
        """A split (all images without one) as a ``torch.utils.data.Dataset`` of (uint8 tensor in CHW, class number)."""
        from handful.data.torch_view import TorchView

        return TorchView(self.part(split, scheme), transform)

    def save(self, path: str | os.PathLike[str]) -> Collection:
        """Write the collection as a packed folder; its hash is computed on the way."""
        write_collection(self, Path(path))
        return open_packed(Path(path))

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.card.shape))
        return f"<Collection {self.id}: {len(self)} {self.card.kind} of {shape}, label {' x '.join(self.card.labels)}>"

    def _repr_html_(self) -> str:
        from handful.data.show import collection_html

        return collection_html(self)


def open_packed(path: Path, verify: bool | None = None) -> Collection:
    """Map a packed collection; its bytes are verified when they may have changed (see `read_packed`).

    A folder with ``over.json`` holds no images: a table and a mask over another collection's rows (what `handful repair` writes).
    """
    card = Card.read(path / "card.json")
    if not (path / OVER).is_file():
        return Collection(card, *read_packed(path, card, verify), path)
    over = read_over(path)
    name, _, rest = over.source.partition(":")
    if name in registry.table("collections") and (rest or not Path(over.source).exists()):
        of = registry.make("collections", *parse_spec(over.source))
    elif (Path(over.source) / OVER).is_file():
        raise BadInput(f"{path}: {over.source} is a mask itself; repair the collection that it lies over")
    else:
        of = open_packed(Path(over.source), verify)
    if of.card.hash != over.hash or (len(over.rows) and over.rows.max() >= len(of)):
        raise BadInput(
            f"{path} was made over {over.id}, and {over.source} is {of.id} now; repair that collection again"
        )
    if over_hash(of.card.hash, len(of), over.rows, over.table, of.table, over.rule) != card.hash:
        raise BadInput(f"{path}: its table or mask has changed since it was written; repair {over.source} again")
    made = Collection(card, over.table, None, path, of, over.rows)
    made.rule = over.rule
    return made


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows of a collection: what a rule draws from. Parts are equal if their ids are."""

    wanted: ClassVar[str] = "a part of a collection, such as collection.test or collection.whole"

    collection: Collection = field(repr=False)
    scheme: str
    split: str
    rows: np.ndarray = field(repr=False)

    @cached_property
    def id(self) -> str:
        digest = hashlib.sha256(np.ascontiguousarray(self.rows, dtype="<i8").tobytes()).hexdigest()[:12]
        return f"{self.collection.id}:{self.scheme}/{self.split}#{digest}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Part) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_split(self) -> bool:
        """Whether scheme and split alone say which rows these are."""
        if self.scheme not in ("", *self.collection.card.schemes) or "[" in self.split:
            return False
        if not self.scheme:
            return len(self) == len(self.collection)
        return bool(np.array_equal(self.collection.part(self.split, self.scheme).rows, self.rows))

    @property
    def packed_rows(self) -> str:
        """The row numbers as short text, from which `Collection.rows_part` makes the part again."""
        steps = np.diff(np.asarray(self.rows, dtype="<i8"), prepend=0)
        return base64.b64encode(zlib.compress(steps.astype("<i8").tobytes(), 9)).decode()

    def where(self, keep: np.ndarray, name: str) -> Part:
        """The rows for which ``keep`` holds, as a part of its own."""
        return Part(self.collection, self.scheme, f"{self.split}[{name}]", self.rows[keep])

    def codes(self, columns: tuple[str, ...]) -> tuple[np.ndarray, list[tuple[str, ...]]]:
        """A number per row for the tuple of values in ``columns``, and the tuples in order of their numbers."""
        for column in columns:
            if column not in self.collection.table.columns:
                self.column(column)
        frame = self.collection.table.select(columns)[self.rows].cast(pl.String)
        for column in columns:
            if frame[column].null_count():
                row = int(self.rows[frame[column].is_null().arg_max() or 0])
                raise BadInput(f"{self.collection.card.name}: image {row} has no value in column {column!r}; label it")
        values = frame.unique().sort(columns).with_row_index(_CODE)
        codes = frame.join(values, on=list(columns), how="left", maintain_order="left")[_CODE]
        return codes.to_numpy().astype(np.int64), [tuple(r) for r in values.select(columns).rows()]

    @cached_property
    def _classes(self) -> tuple[np.ndarray, list[tuple[str, ...]]]:
        columns = self.collection.card.labels
        if "dataset" in self.collection.table.columns and "dataset" not in columns:
            return self.codes(("dataset", *columns))
        return self.codes(columns)

    @property
    def classes(self) -> np.ndarray:
        """The class number (0..n_classes-1) of each row of the part."""
        return self._classes[0]

    @property
    def n_classes(self) -> int:
        return len(self._classes[1])

    @cached_property
    def class_names(self) -> list[str]:
        """One readable name per class."""
        return ["/".join(name) for name in self._classes[1]]

    @cached_property
    def members(self) -> Groups:
        """Image numbers grouped by class."""
        return Groups.of(self.rows, self.classes, self.n_classes)

    @cached_property
    def datasets(self) -> tuple[np.ndarray, list[str]]:
        """The data set number of each CLASS, and the data sets' names."""
        if "dataset" not in self.collection.table.columns:
            return np.zeros(self.n_classes, dtype=np.int64), [self.collection.card.name]
        codes, names = self.codes(("dataset",))
        of_class = np.zeros(self.n_classes, dtype=np.int64)
        of_class[self.classes] = codes
        return of_class, [n[0] for n in names]

    def column(self, name: str, rows: np.ndarray | None = None) -> np.ndarray:
        """Values of one column for the given image numbers (all of the part's by default)."""
        if name not in self.collection.table.columns:
            known = nearest(name, self.collection.table.columns)
            raise BadInput(f"{self.collection.card.name} has no column {name!r}; {known}")
        return self.collection.table[name][self.rows if rows is None else rows].to_numpy()


@dataclass(frozen=True)
class Groups:
    """Values grouped by an integer key, as one array and offsets."""

    values: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, keys: np.ndarray, n: int) -> Groups:
        order = np.argsort(keys, kind="stable")
        starts = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(np.bincount(keys, minlength=n), out=starts[1:])
        return cls(np.asarray(values)[order], starts)

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, i: int) -> np.ndarray:
        return self.values[self.starts[i] : self.starts[i + 1]]


def as_table(columns: dict[str, Any]) -> pl.DataFrame:
    """A label table: every factor a string column."""
    return pl.DataFrame({k: pl.Series(k, v).cast(pl.String) for k, v in columns.items()})
