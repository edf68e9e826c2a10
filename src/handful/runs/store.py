"""A run's folder: ``run.json``, ``parts/<chunk>.parquet`` while it goes, ``tasks.parquet`` when it is whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from handful import registry
from handful.errors import BadInput
from handful.files import WRONG, read_json, write_atomically
from handful.frames import read_frame, write_frame
from handful.methods.answering import CHUNK
from handful.metrics.context import PREFIX

COUNTS = ("repeat", "task")
_IDENTITY = {"collection": str, "part": str, "method": str, "tasks_id": str, "rule": dict, "metrics": list}


def read_facts(path: Path) -> dict[str, Any]:
    """What a run's run.json says, its identity complete."""
    file = path / "run.json"
    try:
        facts = read_json(file)
        for key, kind in _IDENTITY.items():
            if not isinstance(facts["identity"][key], kind):
                raise ValueError(f"its {key} is {str(facts['identity'][key])[:40]!r}")
        if not isinstance(facts["identity"]["rule"]["rule"], str) or not facts["identity"]["metrics"]:
            raise ValueError("its rule or its metrics have no name")
        if facts["identity"]["seed"] is None or not all(isinstance(m, str) for m in facts["identity"]["metrics"]):
            raise ValueError("it has no seed, or metrics without a name")
        return facts
    except (OSError, *WRONG) as error:
        raise BadInput(f"{file} is damaged ({error}); remove the folder, or run it again in another") from error


def read_part(path: Path, counts: Sequence[str]) -> pl.DataFrame:
    """One table of a run's folder, with columns of whole numbers ``counts``."""
    try:
        frame = read_frame(path)
        if odd := [c for c in counts if c not in frame.columns or not frame[c].dtype.is_integer()]:
            raise ValueError(f"it has no column of whole numbers {odd[0]!r}")
        nested = [c for c in frame.columns if frame[c].dtype.is_nested() and not c.startswith("answer_")]
        if odd := [*nested, *not_numbers(frame, [c for c in frame.columns if c.startswith(PREFIX)])]:
            raise ValueError(f"its column {odd[0]!r} holds no numbers")
        return frame
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} is damaged ({error}); remove it and start the same command again") from error


def not_numbers(frame: pl.DataFrame, columns: Iterable[str]) -> list[str]:
    """Those of the columns that hold something else; one without any value is as good as numbers."""
    return [c for c in columns if not frame[c].dtype.is_numeric() and frame[c].dtype != pl.Null]


class RunFolder:
    """Results on disk; every file appears whole or not at all."""

    def __init__(self, path: Path, identity: dict[str, Any]):
        self.path, self.identity = path, identity
        if path.exists() and not path.is_dir():
            raise BadInput(f"{path} is a file; name a folder for the results")
        if (path / "run.json").is_file():
            known = read_facts(path)["identity"]
            differ = [k for k, v in json.loads(json.dumps(identity)).items() if known.get(k) != v]
            if set(differ) == {"tasks_id", "n"} and self._fewer(known):
                self._grow()
            elif differ or set(known) != set(identity):
                raise BadInput(
                    f"{path} holds another run's results (its {', '.join(differ) or 'identity'} differ); name another folder"
                )
        elif path.is_dir() and any(path.iterdir()):
            raise BadInput(f"{path} is not empty and holds no run; name another folder")
        else:
            path.mkdir(parents=True, exist_ok=True)
            self.write_json({"identity": identity, "status": "running"})

    def _fewer(self, known: dict[str, Any]) -> bool:
        """Whether the folder holds the first tasks of what is asked now: task i is the same however many there are."""
        few, many = known.get("n"), self.identity["n"]
        return isinstance(few, int) and few < many and self.identity["repeats"] == 1 and not self.identity["answers"]

    def _grow(self) -> None:
        """Make a run of fewer tasks the beginning of this one; only whole chunks count, so that no number changes.

        A kill at any moment leaves chunks that count, and a run.json of one of the two runs.
        """
        frame = self.finished()
        if frame is not None:
            for chunk in range(frame.height // CHUNK):
                own = frame.filter(pl.col("task") // CHUNK == chunk)
                if own.height == CHUNK:
                    self.add(chunk, own)
            (self.path / "tasks.parquet").unlink()
        for chunk, own in self.done().items():
            if own.height < CHUNK:
                (self.path / "parts" / f"{chunk:06d}.parquet").unlink()
        self.write_json({"identity": self.identity, "status": "running"})

    def write_json(self, facts: dict[str, Any]) -> None:
        text = json.dumps(facts, indent=1, allow_nan=True) + "\n"
        write_atomically(self.path / "run.json", lambda t: t.write_text(text, encoding="utf-8"))

    def done(self) -> dict[int, pl.DataFrame]:
        """Chunks that are whole already."""
        parts = {}
        for path in sorted((self.path / "parts").glob("*.parquet")):
            if not path.stem.isdecimal():
                raise BadInput(f"{path} is not a part of a run; remove it")
            parts[int(path.stem)] = part = read_part(path, COUNTS)
            scored = {c for m in self.identity["metrics"] for c in registry.get("metrics", m).columns}
            if odd := not_numbers(part, sorted(scored & set(part.columns))):
                raise BadInput(
                    f"{path} is damaged (its {odd[0]} holds no numbers); remove it and start the same command again"
                )
        return parts

    def finished(self) -> pl.DataFrame | None:
        path = self.path / "tasks.parquet"
        return read_part(path, COUNTS) if path.is_file() else None

    def add(self, chunk: int, frame: pl.DataFrame) -> None:
        write_atomically(self.path / "parts" / f"{chunk:06d}.parquet", lambda t: write_frame(frame, t))

    def finish(self, frame: pl.DataFrame, answers: pl.DataFrame | None, facts: dict[str, Any]) -> None:
        write_atomically(self.path / "tasks.parquet", lambda t: write_frame(frame, t))
        if answers is not None:
            write_atomically(self.path / "answers.parquet", lambda t: write_frame(answers, t))
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
