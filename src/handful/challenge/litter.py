"""Sweeping up what a process that was killed could not: folders of runs, uploads without a row, half-written files."""

from __future__ import annotations

import hashlib
import shutil
import time
from pathlib import Path

from sqlalchemy import select

from handful.challenge.db import Database, Submission

_HOUR = 3600.0


def run_name(submission: int, worker: str) -> str:
    """The folder of one taking of a submission, so that it can be told whose it is."""
    return f"{submission}-{hashlib.sha256(worker.encode()).hexdigest()[:12]}"


def sweep_runs(database: Database, state: Path) -> list[Path]:
    """Remove the folders of runs that no worker holds, and half-written files a day old."""
    # Listed before the database is asked: a folder that is there has its lease recorded already.
    found = list((state / "runs").glob("*"))
    with database.reading() as session:
        query = select(Submission.id, Submission.worker).where(Submission.status == "running")
        held = {run_name(number, worker) for number, worker in session.execute(query)}
    litter = [path for path in found if path.name not in held]
    for part in ("", "packed", "training", "results"):
        hidden = [path for pattern in (".*-*", "*.partial") for path in (state / part).glob(pattern)]
        litter += [path for path in hidden if _age(path) > 24 * _HOUR]
    return _remove(litter)


def sweep_uploads(database: Database, state: Path) -> list[Path]:
    """Remove archives that no submission names; young ones may be on their way to a row."""
    found = [path for path in (state / "submissions").glob("*") if _age(path) > _HOUR]
    with database.reading() as session:
        known = set(session.scalars(select(Submission.archive)))
    return _remove([path for path in found if path.name not in known])


def _age(path: Path) -> float:
    try:
        return time.time() - path.lstat().st_mtime
    except OSError:
        return 0.0


def _remove(litter: list[Path]) -> list[Path]:
    for path in litter:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return litter
