"""Labels that are never lost: a table beside the photos, and a log of every change that only ever grows.

The log is written first, then the table. Whoever is killed in between finds the log longer, and goes on from there.
"""

from __future__ import annotations

import csv
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from handful.errors import BadInput
from handful.files import WRONG, parse_json, read_rows, write_atomically

TABLE, LOG = "labels.csv", "labels.log"
HEADER = ["file", "label"]
LONGEST = 100
Change = dict[str, str | None]


class Labels:
    """The labels of one folder's photos.

    Attributes
    ----------
    now
        Photo's name -> label, of those that have one.
    classes
        Labels in the order in which they first appeared, those without a photo too.
    """

    def __init__(self, folder: Path):
        self.folder, self.lock = folder, threading.RLock()
        self.now: dict[str, str] = {}
        self.classes: list[str] = []
        self._done: list[dict[str, Any]] = []  # what undo takes back, the last first
        self._open()

    def _open(self) -> None:
        log = self.folder / LOG
        self.fresh = not log.is_file()
        try:
            self._log = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise BadInput(
                f"{self.folder} cannot be written ({error.strerror}), and labels are kept beside the photos; copy them"
            ) from error
        _alone(self._log, self.folder)
        before = self._replay(log)
        table = self._table()
        if table not in (None, self.now, before):
            assert table is not None  # changed by another program while nobody was looking
            every = {**dict.fromkeys(self.now), **table}
            self._write("read", {n: v for n, v in every.items() if self.now.get(n) != v})
        elif table != self.now and (self.now or table):
            self._write_table()

    def _replay(self, log: Path) -> dict[str, str]:
        """Every change again; the labels before the last one."""
        data, before = log.read_bytes(), dict[str, str]()
        if data and not data.endswith(b"\n"):  # killed while writing: what is cut off was never answered as done
            whole = data.rfind(b"\n") + 1
            os.ftruncate(self._log, whole)
            data = data[:whole]
        texts = data.split(b"\n")[:-1]
        for line, text in enumerate(texts, 1):
            try:
                entry = parse_json(text)
                if line == len(texts):
                    before = dict(self.now)
                self._apply(entry)
            except WRONG as error:
                raise BadInput(
                    f"{log}, line {line} is damaged ({error}); move the file away, {TABLE} keeps the labels"
                ) from error
        return before

    def _table(self) -> dict[str, str] | None:
        path = self.folder / TABLE
        if not path.exists():
            return None
        try:
            rows = [[v.strip() for v in r] for r in read_rows(path) if r]
        except (OSError, ValueError) as error:
            raise BadInput(f"{path} cannot be read ({error}); repair it or move it away") from error
        if not rows or rows[0] != HEADER or any(len(r) != 2 for r in rows):
            raise BadInput(f"{path} is not a table with the columns {' and '.join(HEADER)}; move it away")
        return {name: label for name, label in rows[1:] if label}

    def _apply(self, entry: dict[str, Any]) -> None:
        for name, label in entry["now"].items():
            if label is None:
                self.now.pop(name, None)
            else:
                self.now[name] = str(label)
        new = entry.get("class")
        for label in (*([new] if new else []), *entry["now"].values()):
            if label is not None and label not in self.classes:
                self.classes.append(label)
        if entry["do"] == "undo":
            self._done.pop()
        elif entry["do"] != "class":
            self._done.append(entry)

    def _write(self, do: str, now: Change, **more: Any) -> None:
        entry = {"do": do, "was": {n: self.now.get(n) for n in now}, "now": now, **more}
        data = (json.dumps(entry, ensure_ascii=False) + "\n").encode()
        size = os.fstat(self._log).st_size
        try:
            if os.write(self._log, data) != len(data):
                raise OSError(28, "No space left on device")
            os.fsync(self._log)
        except OSError as error:
            os.ftruncate(self._log, size)
            raise BadInput(
                f"{self.folder / LOG} cannot be written ({error.strerror}); free some space, nothing was changed"
            ) from error
        self._apply(entry)
        self._write_table()

    def _write_table(self) -> None:
        def write(path: Path) -> None:
            with open(path, "w", encoding="utf-8", newline="") as stream:
                csv.writer(stream, lineterminator="\n").writerows([HEADER, *sorted(self.now.items())])
                stream.flush()
                os.fsync(stream.fileno())

        write_atomically(self.folder / TABLE, write)

    def set(self, labels: Mapping[str, str | None], do: str = "label") -> list[str]:
        """Give these photos these labels (None takes one away); the names of those that changed."""
        clean = {name: None if label is None else checked(label) for name, label in labels.items()}
        with self.lock:
            now: Change = {n: v for n, v in clean.items() if self.now.get(n) != v}
            if now:
                self._write(do, now)
            return list(now)

    def add_class(self, name: str) -> None:
        """A class that has no photo yet."""
        with self.lock:
            if (name := checked(name)) not in self.classes:
                self._write("class", {}, **{"class": name})

    def undo(self) -> list[str]:
        """Take the last change back that was not taken back; photos that another change has labelled since keep that."""
        with self.lock:
            if not self._done:
                return []
            last = self._done[-1]
            back = {n: old for n, old in last["was"].items() if self.now.get(n) == last["now"][n]}
            self._write("undo", back)
            return list(back)

    @property
    def undoable(self) -> int:
        return len(self._done)

    def close(self) -> None:
        os.close(self._log)


def checked(label: str) -> str:
    """A label as it is kept."""
    label = " ".join(label.split())
    if not label or len(label) > LONGEST or not label.isprintable():
        raise BadInput(f"a class has a name of 1 to {LONGEST} characters, not {label[:40]!r}")
    return label


def _alone(handle: int, folder: Path) -> None:
    """One studio writes to a folder; the lock ends with the process, however that ends."""
    try:
        import fcntl
    except ImportError:  # Windows
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise BadInput(f"another studio has {folder} open; use its page, or stop it first") from error
