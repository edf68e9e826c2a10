"""Images in tables: Parquet files, and the Arrow files that Hugging Face `datasets` saves, read with Polars alone.

A stranger's file is read by another process first (`handful.frames`), which a damaged or swollen one may end.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from handful.errors import BadInput
from handful.files import parse_json
from handful.frames import checked, read_table

BLOCK = 256
# Under this key Parquet files say what `datasets` knows of their columns.
KEY = "huggingface"


class ColumnTable:
    """One Parquet or Arrow file; rows are read in blocks, since neighbours are asked for together."""

    def __init__(self, path: Path):
        self.path = path
        self._block: tuple[str, int, pl.Series] | None = None
        self._whole: pl.DataFrame | None = None

    def check(self) -> None:
        """Refuse a file that cannot be read."""
        try:
            checked(self.path)
        except (OSError, ValueError) as error:
            raise BadInput(f"{self.path} cannot be read as a table ({error}); fetch it again") from error

    @property
    def schema(self) -> pl.Schema:
        return self._read(None, 0, 1).schema

    @property
    def features(self) -> dict[str, Any]:
        """What a Parquet file says of its columns to `datasets`, such as the names of its classes."""
        if self.path.suffix.lower() != ".parquet":
            return {}
        try:
            said = parse_json(pl.read_parquet_metadata(self.path).get(KEY, "{}"))
            return dict(said["info"]["features"]) if said else {}
        except (OSError, KeyError, TypeError, ValueError, pl.exceptions.PolarsError):
            return {}

    @property
    def height(self) -> int:
        return self._read(self.schema.names()[:1]).height

    def columns(self, names: list[str]) -> pl.DataFrame:
        """Whole columns."""
        return self._read(names)

    def holds_bytes(self, column: str) -> bool:
        """Whether images are in the table itself; by its first row, as writers do one or the other."""
        first = self._read([column], 0, 1)[column].to_list()
        return not first or first[0] is None or first[0].get("bytes") is not None

    def paths(self, column: str) -> list[str | None]:
        """The paths beside (or in place of) the images' bytes."""
        return self._read([column])[column].struct.field("path").to_list()

    def cell(self, column: str, row: int) -> bytes:
        """The bytes of the image in a row."""
        where = f"{self.path}/{column}/{row}"
        start = row - row % BLOCK
        if self._block is None or self._block[:2] != (column, start):
            self._block = (column, start, self._read([column], start, BLOCK)[column])
        cells = self._block[2]
        value = cells[row - start] if 0 <= row - start < len(cells) else None
        data = value.get("bytes") if isinstance(value, dict) else value
        if not isinstance(data, bytes):
            raise BadInput(f"{where} holds no bytes of an image")
        return data

    def _read(self, names: list[str] | None, start: int = 0, rows: int | None = None) -> pl.DataFrame:
        try:
            if self.path.suffix.lower() == ".parquet":
                lazy = pl.scan_parquet(self.path, glob=False)
                return (lazy if names is None else lazy.select(names)).slice(start, rows).collect()
            # A stream has no index: it is read once and kept, as large as it is.
            if self._whole is None:
                self._whole = read_table(self.path)
            frame = self._whole if names is None else self._whole.select(names)
            return frame.slice(start, rows)
        except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise BadInput(f"{self.path} cannot be read as a table ({str(error).splitlines()[0][:200]})") from error
