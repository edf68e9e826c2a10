"""Word vectors as class descriptions: GloVe text and word2vec binary files, looked up by name, phrase or synset."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from handful.errors import BadInput, Missing

Name = str | Sequence[str]

# Numbers turned at once: strings of a whole GloVe file would take ten times the memory of its vectors.
BLOCK = 1_000_000


@dataclass(frozen=True, eq=False, repr=False)
class WordVectors:
    """Vectors of words, one row each.

    A name is looked up as it is, in lower case, then with its spaces as underscores or hyphens (both kinds of file
    spell phrases so); a phrase that has no vector of its own is the mean of its words' vectors ("potter's" may be
    "potter"). A name given as a list is a synset: the mean over the synonyms that are found.
    """

    names: tuple[str, ...]
    matrix: NDArray[np.float32]
    source: str = "given"

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or len(self.names) != len(self.matrix):
            raise BadInput(f"{self.source}: {len(self.names)} names for vectors of shape {self.matrix.shape}")
        bad = np.flatnonzero(~np.isfinite(self.matrix).all(axis=1))
        if len(bad):
            raise BadInput(
                f"{self.source}: the vector of {self.names[bad[0]]!r} is not finite ({len(bad)} such); remove it"
            )

    @classmethod
    def open(cls, path: str | Path) -> WordVectors:
        """Read GloVe ``.txt``, word2vec ``.txt`` (with its header line) or ``.bin``, gzipped or not."""
        file = Path(path)
        try:
            with _stream(file) as stream:
                kind = file.name.removesuffix(".gz").rsplit(".", 1)[-1]
                return cls(*(_binary if kind == "bin" else _text)(stream, file), source=file.name)
        except FileNotFoundError as error:
            raise Missing(f"{file} does not exist; give GloVe .txt or word2vec .bin vectors") from error
        except IsADirectoryError as error:
            raise BadInput(f"{file} is a folder; give GloVe .txt or word2vec .bin vectors") from error
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise BadInput(f"{file} is damaged ({error}); fetch it again") from error
        except (OSError, MemoryError) as error:
            raise BadInput(f"{file} cannot be read ({error}); give GloVe .txt or word2vec .bin vectors") from error

    @property
    def dim(self) -> int:
        return self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"WordVectors({self.source}: {len(self):,} words x {self.dim})"

    @cached_property
    def rows(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.names)}

    @cached_property
    def id(self) -> str:
        """A hash of words and vectors, for results to carry."""
        digest = hashlib.sha256("\n".join(self.names).encode())
        digest.update(np.ascontiguousarray(self.matrix, dtype="<f4").tobytes())
        return digest.hexdigest()[:16]

    def row(self, name: str) -> int | None:
        """The row of a whole name, spelt in any of the usual ways; None where there is none."""
        for spelt in (name, name.lower()):
            for form in (spelt, spelt.replace(" ", "_"), spelt.replace(" ", "-"), spelt.replace("_", " ")):
                if form in self.rows:
                    return self.rows[form]
        return None

    def vector(self, name: Name) -> NDArray[np.float32] | None:
        """The vector of a name, phrase or synset; None if any word of the phrase is missing."""
        if not isinstance(name, str):
            found = [v for v in (self.vector(synonym) for synonym in name) if v is not None]
            return np.mean(found, axis=0, dtype=np.float32) if found else None
        row = self.row(name)
        if row is not None:
            return self.matrix[row]
        words = [w for w in re.split(r"[\s_\-]+", name) if w]
        parts = [self.row(word) if self.row(word) is not None else self.row(word.removesuffix("'s")) for word in words]
        if len(words) < 2 or any(p is None for p in parts):
            return None
        return self.matrix[[p for p in parts if p is not None]].mean(axis=0)

    def known(self, names: Iterable[Name]) -> NDArray[np.bool_]:
        """Which names have a vector."""
        return np.array([self.vector(name) is not None for name in names], dtype=bool)

    def of(self, names: Sequence[Name]) -> NDArray[np.float32]:
        """One row a name; names without a vector are refused, the first few by name."""
        found = [self.vector(name) for name in names]
        missing = [n if isinstance(n, str) else " / ".join(n) for n, v in zip(names, found, strict=True) if v is None]
        if missing:
            shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
            raise BadInput(
                f"{self.source}: no vector for {len(missing)} of {len(names)} names ({shown}); "
                "leave these classes out or give vectors that cover them"
            )
        return np.stack([v for v in found if v is not None]) if found else np.zeros((0, self.dim), np.float32)


@dataclass(frozen=True, eq=False)
class Descriptions:
    """What a learner may know of classes: names and one finite vector each (word vectors, attributes, sentences)."""

    names: tuple[str, ...]
    matrix: NDArray[np.float32]
    source: str = "given"

    def __post_init__(self) -> None:
        if self.matrix.ndim != 2 or len(self.names) != len(self.matrix):
            raise BadInput(f"{self.source}: {len(self.names)} classes for descriptions of shape {self.matrix.shape}")
        if len(set(self.names)) < len(self.names):
            twice = next(n for n in self.names if self.names.count(n) > 1)
            raise BadInput(f"{self.source}: {twice} is described twice; keep one")
        bad = np.flatnonzero(~np.isfinite(self.matrix).all(axis=1))
        if len(bad):
            raise BadInput(f"{self.source}: the description of {self.names[bad[0]]} is not finite ({len(bad)} such)")

    def __len__(self) -> int:
        return len(self.names)

    def of(self, names: Sequence[str]) -> NDArray[np.float32]:
        """Rows of ``names``, in their order; classes without a description are refused by name."""
        rows = {name: i for i, name in enumerate(self.names)}
        missing = [name for name in names if name not in rows]
        if missing:
            shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
            raise BadInput(f"{self.source}: no description of {len(missing)} classes ({shown}); add or leave them out")
        return self.matrix[[rows[name] for name in names]]


def _stream(file: Path) -> IO[bytes]:
    return gzip.open(file, "rb") if file.name.endswith(".gz") else open(file, "rb")  # type: ignore[return-value]


def _text(stream: IO[bytes], file: Path) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    names: list[str] = []
    numbers: list[str] = []
    blocks: list[NDArray[np.float32]] = []
    width = 0
    for at, line in enumerate(io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="\n"), start=1):
        cells = line.rstrip("\r\n").rstrip(" ").split(" ")
        if at == 1 and len(cells) == 2 and all(c.isascii() and c.isdigit() and len(c) < 12 for c in cells):
            width = int(cells[1])
            continue
        width = width or len(cells) - 1
        # A few GloVe "words" hold spaces; the vector is the last ``width`` cells.
        if width < 1 or len(cells) <= width:
            raise BadInput(f"{file}, line {at}: expected a word and {width or 'its'} numbers, found {len(cells)} cells")
        names.append(" ".join(cells[:-width]))
        numbers += cells[-width:]
        if len(numbers) > BLOCK:
            blocks.append(_numbers(numbers, names, width, file))
            numbers = []
    if not names:
        raise BadInput(f"{file} holds no vector")
    blocks.append(_numbers(numbers, names, width, file))
    return tuple(names), np.concatenate(blocks)


def _numbers(cells: list[str], names: list[str], width: int, file: Path) -> NDArray[np.float32]:
    try:
        return np.array(cells, dtype=np.float32).reshape(-1, width)
    except ValueError as error:
        bad = next(i for i, cell in enumerate(cells) if not _is_number(cell))
        word = names[len(names) - len(cells) // width + bad // width]
        raise BadInput(
            f"{file}: {cells[bad]!r} in the vector of {word!r} is not a number; expected GloVe text"
        ) from error


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _binary(stream: IO[bytes], file: Path) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    header = stream.readline().split()
    if len(header) != 2 or not all(c.isdigit() for c in header):
        raise BadInput(f"{file} does not begin with 'words dimensions'; give a word2vec .bin file")
    if max(map(len, header)) > 12 or not int(header[0]) or not int(header[1]):
        raise BadInput(
            f"{file} claims {header[0].decode()[:20]} words of {header[1].decode()[:20]} numbers; fetch it again"
        )
    count, width = int(header[0]), int(header[1])
    # What the file could hold at most, packed as densely as gzip can.
    if count * width * 4 > file.stat().st_size * (1100 if file.name.endswith(".gz") else 1):
        raise BadInput(
            f"{file} is too short for {count:,} words of {width:,} numbers; it was cut short, fetch it again"
        )
    matrix = np.empty((count, width), dtype=np.float32)
    names: list[str] = []
    buffer, at = b"", 0
    for row in range(count):
        while (space := buffer.find(b" ", at)) < 0 or len(buffer) - space - 1 < 4 * width:
            more = stream.read(1 << 22)
            if not more:
                raise BadInput(f"{file} ends at word {row + 1:,} of {count:,}; it was cut short, fetch it again")
            buffer, at = buffer[at:] + more, 0
        names.append(buffer[at:space].lstrip(b"\n").decode("utf-8", errors="replace"))
        matrix[row] = np.frombuffer(buffer, dtype="<f4", count=width, offset=space + 1)
        at = space + 1 + 4 * width
    return tuple(names), matrix
