"""Class-disjoint splits: by a file, by fractions with a seed, by sample count; added to new or packed collections."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from handful.data.collection import SPLITS, Card, Collection, open_packed
from handful.data.importers import SPLIT_NAMES, split_name
from handful.data.store import content_hash
from handful.errors import BadInput, nearest
from handful.files import parse_json, read_rows, write_atomically
from handful.frames import write_frame

JOINED = "/"


@dataclass(frozen=True)
class SplitRule:
    """Gives each class a split. Subclasses say which by `assign`.

    Parameters
    ----------
    scheme
        The name of the column that will hold the splits.
    on
        Columns whose tuple of values is kept together; the class by default (with its data set, where there are many).
        ``("alphabet",)`` or ``("dataset",)`` makes whole alphabets or data sets disjoint.
    """

    scheme: str = "split"
    on: tuple[str, ...] = ()

    def assign(self, sizes: Mapping[str, int]) -> dict[str, str]:
        """The split of each class, from the classes' names and numbers of images; a class left out is in no split."""
        raise NotImplementedError

    def groups(self, card: Card, table: pl.DataFrame) -> pl.Series:
        """The name of each row's class: its values joined by slashes."""
        on = self.on or (
            *(("dataset",) if "dataset" in table.columns and "dataset" not in card.labels else ()),
            *card.labels,
        )
        for column in on:
            if column not in table.columns:
                raise BadInput(f"{card.name} has no column {column!r} to split on; {nearest(column, table.columns)}")
        return table.select(pl.concat_str([pl.col(c).cast(pl.String) for c in on], separator=JOINED).alias("class"))[
            "class"
        ]

    def apply(self, card: Card, table: pl.DataFrame) -> tuple[Card, pl.DataFrame]:
        """Card and table with the scheme put first."""
        if self.scheme in table.columns and self.scheme not in card.schemes:
            raise BadInput(f"{card.name} has a column {self.scheme!r} that holds no splits; name the scheme otherwise")
        groups = self.groups(card, table)
        counted = groups.drop_nulls().value_counts().sort("class")
        assigned = self.assign(dict(zip(counted["class"].to_list(), counted["count"].to_list(), strict=True)))
        names, values = list(assigned), list(assigned.values())
        column = groups.replace_strict(names, values, default="", return_dtype=pl.String).alias(self.scheme)
        schemes = (self.scheme, *(s for s in card.schemes if s != self.scheme))
        return dataclasses.replace(card, schemes=schemes), table.with_columns(column)


@dataclass(frozen=True)
class ByFraction(SplitRule):
    """Classes at random, by fractions of their number.

    The order is by a hash of seed and name, so it is the same on every machine, and dropping a class does not reshuffle
    the rest. The default is 64 : 16 : 20, as miniImageNet's (Ravi and Larochelle, ICLR 2017).
    """

    train: float = 0.64
    valid: float = 0.16
    test: float = 0.20
    seed: int = 0

    def assign(self, sizes: Mapping[str, int]) -> dict[str, str]:
        shares = {"train": self.train, "valid": self.valid, "test": self.test}
        order = sorted(sizes, key=lambda n: hashlib.sha256(f"{self.seed}/{n}".encode()).digest())
        return _cut(order, shares)


@dataclass(frozen=True)
class ByCount(SplitRule):
    """Classes by their number of images (Zhang et al., MetaCoCo, ICLR 2024, Table 4).

    Largest first: the first 64% train, the next 20% test, the last 16% validate. Ties go by name.
    """

    train: float = 0.64
    test: float = 0.20
    valid: float = 0.16

    def assign(self, sizes: Mapping[str, int]) -> dict[str, str]:
        order = sorted(sizes, key=lambda n: (-sizes[n], n))
        return _cut(order, {"train": self.train, "test": self.test, "valid": self.valid})


@dataclass(frozen=True)
class ByFile(SplitRule):
    """Classes as a file says.

    Parameters
    ----------
    path
        JSON ``{"train": [classes], "valid": [...], "test": [...]}``; or a CSV with a column ``split`` and one column
        ``class`` or the label columns; or a folder of train.txt, valid.txt (or val.txt), test.txt with a class a line.
        A class of several label columns is written with slashes (``Angelic/character01/rot000``).
    """

    path: str = ""

    def assign(self, sizes: Mapping[str, int]) -> dict[str, str]:
        assigned: dict[str, str] = {}
        for where, name, split in self._lines():
            if name not in sizes:
                raise BadInput(f"{where}: there is no class {name!r}; {nearest(name, sizes)}")
            if assigned.setdefault(name, split) != split:
                raise BadInput(f"{where}: {name} is in {assigned[name]} and in {split}; a class belongs to one split")
        if not assigned:
            raise BadInput(f"{self.path} names no classes; list them under train, valid and test")
        return assigned

    def _lines(self) -> Iterator[tuple[str, str, str]]:
        path = Path(self.path)
        if path.is_dir():
            files = [f for f in sorted(path.glob("*.txt")) if f.stem.lower() in SPLIT_NAMES]
            for file in files:
                for number, line in enumerate(_text(file).splitlines(), start=1):
                    if line.strip():
                        yield f"{file}, line {number}", line.strip().strip("/"), SPLIT_NAMES[file.stem.lower()]
        elif path.suffix.lower() == ".csv":
            yield from self._csv(path)
        else:
            yield from self._json(path)

    def _csv(self, path: Path) -> Iterator[tuple[str, str, str]]:
        try:
            header, *rows = [row for row in read_rows(path) if row] or [[]]
        except (OSError, ValueError) as error:
            raise BadInput(f"{path} cannot be read ({error}); give a .csv of splits") from error
        if "split" not in header or len(header) < 2:
            raise BadInput(f"{path} needs a column 'split' and a column 'class', and has: {', '.join(header)}")
        parts = ["class"] if "class" in header else [h for h in header if h != "split"]
        for number, cells in enumerate(rows, start=2):
            where = f"{path}, line {number}"
            if len(cells) < len(header):
                raise BadInput(f"{where} is shorter than the header; fill it in")
            row = dict(zip(header, cells, strict=False))
            if split := split_name(row["split"], where):
                yield where, JOINED.join(row[p] for p in parts), split

    def _json(self, path: Path) -> Iterator[tuple[str, str, str]]:
        try:
            lists = parse_json(_text(path))
        except ValueError as error:
            raise BadInput(f"{path} is neither JSON, nor a .csv, nor a folder of .txt files ({error})") from error
        if not isinstance(lists, dict) or not all(isinstance(v, list) for v in lists.values()):
            raise BadInput(f'{path} must look like {{"train": [classes], "valid": [...], "test": [...]}}')
        for key, names in lists.items():
            for name in names:
                yield str(path), str(name), split_name(key, str(path))


def add_scheme(path: str | os.PathLike[str], rule: SplitRule) -> Collection:
    """Add (or replace) a split scheme of a packed collection, in place; it becomes the default.

    The table is part of the content hash, so the collection's id changes and results from before refuse comparison
    with results from after.
    """
    folder = Path(path)
    before = open_packed(folder)
    if before.over is not None:
        raise BadInput(f"{folder} is a mask over {before.over.id}; split that collection, and repair it again")
    card, table = rule.apply(before.card, before.table)
    kept = table.filter(pl.col(rule.scheme) != "").height
    if not kept:
        raise BadInput(f"the scheme {rule.scheme!r} would leave every image of {folder} out; check the split")
    write_atomically(folder / ".labels.new", lambda t: write_frame(table, t))
    try:
        with _undisturbed():
            os.replace(folder / "labels.parquet", folder / ".labels.old")
            try:
                os.replace(folder / ".labels.new", folder / "labels.parquet")
                card = dataclasses.replace(card, hash=content_hash(folder, card.kind))
                write_atomically(folder / "card.json", lambda t: t.write_text(card.text(), encoding="utf-8"))
            except BaseException:
                os.replace(folder / ".labels.old", folder / "labels.parquet")
                raise
            (folder / ".labels.old").unlink()
    finally:
        (folder / ".labels.new").unlink(missing_ok=True)
    return open_packed(folder)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C waits until table and card agree again."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def class_overlaps(groups: pl.Series, splits: pl.Series) -> pl.DataFrame:
    """Classes in more than one of train, valid and test: columns class, splits."""
    frame = pl.DataFrame({"class": groups, "split": splits}).filter(pl.col("split").is_in(SPLITS[:3]))
    seen = frame.group_by("class").agg(pl.col("split").unique().sort())
    return seen.filter(pl.col("split").list.len() > 1).sort("class").rename({"split": "splits"})


def _cut(order: Sequence[str], shares: Mapping[str, float]) -> dict[str, str]:
    """Consecutive runs of ``order`` in the order and proportion of ``shares``; no positive share is left empty."""
    total = sum(shares.values())
    if any(s < 0 or not math.isfinite(s) for s in shares.values()) or not math.isclose(total, 1.0, abs_tol=1e-6):
        raise BadInput(
            f"the fractions must be at least 0 and sum to 1, not {', '.join(f'{v:g}' for v in shares.values())}"
        )
    wanted = [s for s in shares if shares[s] > 0]
    if len(order) < len(wanted):
        raise BadInput(f"{len(order)} classes cannot be split in {len(wanted)} ({', '.join(wanted)}); add classes")
    counts = {s: max(1, math.floor(shares[s] * len(order) + 1e-9)) for s in wanted}
    remainders = sorted(wanted, key=lambda s: -(shares[s] * len(order) - counts[s]))
    for i in range(len(order) - sum(counts.values())):
        counts[remainders[i % len(wanted)]] += 1
    while sum(counts.values()) > len(order):
        counts[max(counts, key=lambda s: counts[s])] -= 1
    assigned: dict[str, str] = {}
    at = 0
    for split in wanted:
        assigned |= dict.fromkeys(order[at : at + counts[split]], split)
        at += counts[split]
    return assigned


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); give a file of splits") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
