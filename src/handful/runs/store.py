"""A run's folder: ``run.json``, ``parts/<chunk>.parquet`` while it goes, ``tasks.parquet`` when it is whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from handful.errors import BadInput
from handful.files import write_atomically


class RunFolder:
    """Results on disk; every file appears whole or not at all."""

    def __init__(self, path: Path, identity: dict[str, Any]):
        self.path, self.identity = path, identity
        if path.exists() and not path.is_dir():
            raise BadInput(f"{path} is a file; name a folder for the results")
        if (path / "run.json").is_file():
            try:
                known = json.loads((path / "run.json").read_text(encoding="utf-8"))["identity"]
            except (ValueError, KeyError, UnicodeDecodeError) as error:
                raise BadInput(f"{path / 'run.json'} is damaged; remove the folder or name another") from error
            if known != json.loads(json.dumps(identity)):
                differ = [k for k in identity if known.get(k) != json.loads(json.dumps(identity[k]))]
                raise BadInput(
                    f"{path} holds another run's results (its {', '.join(differ) or 'identity'} differ); name another folder"
                )
        elif path.is_dir() and any(path.iterdir()):
            raise BadInput(f"{path} is not empty and holds no run; name another folder")
        else:
            path.mkdir(parents=True, exist_ok=True)
            self.write_json({"identity": identity, "status": "running"})

    def write_json(self, facts: dict[str, Any]) -> None:
        text = json.dumps(facts, indent=1, allow_nan=True) + "\n"
        write_atomically(self.path / "run.json", lambda t: t.write_text(text, encoding="utf-8"))

    def done(self) -> dict[int, pl.DataFrame]:
        """Chunks that are whole already."""
        parts = {}
        for path in sorted((self.path / "parts").glob("*.parquet")):
            parts[int(path.stem)] = pl.read_parquet(path)
        return parts

    def finished(self) -> pl.DataFrame | None:
        path = self.path / "tasks.parquet"
        return pl.read_parquet(path) if path.is_file() else None

    def add(self, chunk: int, frame: pl.DataFrame) -> None:
        write_atomically(self.path / "parts" / f"{chunk:06d}.parquet", lambda t: frame.write_parquet(t))

    def finish(self, frame: pl.DataFrame, answers: pl.DataFrame | None, facts: dict[str, Any]) -> None:
        write_atomically(self.path / "tasks.parquet", lambda t: frame.write_parquet(t))
        if answers is not None:
            write_atomically(self.path / "answers.parquet", lambda t: answers.write_parquet(t))
        self.write_json({"identity": self.identity, "status": "finished", **facts})
        for path in (self.path / "parts").glob("*"):
            path.unlink(missing_ok=True)
        if (self.path / "parts").is_dir():
            (self.path / "parts").rmdir()


def digest(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def stack(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Frames below one another; a column that some lack is empty there."""
    return pl.concat(list(frames), how="diagonal_relaxed")
