"""A studio for the tests: as a process of its own, which can be killed, and the client that its page would be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx


class Studio:
    """Use as a context manager; ``kill`` is kill -9."""

    def __init__(self, folder: Path, *more: str, net: str = "pixels") -> None:
        self.command = [sys.executable, "-m", "handful", "studio", str(folder), "--net", net, "--no-browser", *more]

    def start(self) -> Studio:
        self.process = subprocess.Popen(
            self.command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"(http://127\.0\.0\.1:\d+)/\?token=(\S+)", line)
        assert found, line + self.process.stdout.read()
        self.url, self.token = found.groups()
        self.port = int(self.url.rpartition(":")[2])
        self.client = httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=60)
        wait(self._answers, "the server")
        return self

    def _answers(self) -> bool:
        try:
            return self.client.get("/api/changes").status_code == 200
        except httpx.TransportError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.client.close()

    def __enter__(self) -> Studio:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    def changes(self, since: int = 0) -> dict[str, Any]:
        epoch = self.client.get("/api/changes").json()["epoch"]
        return self.client.get("/api/changes", params={"since": since, "epoch": epoch}).json()

    def labels(self) -> dict[str, str]:
        return {row[1]: row[2] for row in self.changes()["photos"] if row[2] is not None}

    def numbers(self) -> dict[str, int]:
        return {row[1]: row[0] for row in self.changes()["photos"]}

    def post(self, path: str, **values: Any) -> dict[str, Any]:
        answer = self.client.post(path, json=values)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def embedded(self) -> dict[str, Any]:
        """Wait until every photo is."""
        wait(lambda: (p := self.changes()["progress"])["done"] == p["photos"] and p["photos"], "embedding")
        return self.changes()

    def findings(self, enough: Callable[[dict[str, Any]], Any] = lambda f: "classes" in f) -> dict[str, Any]:
        wait(lambda: enough(self.client.get("/api/findings").json()), "what is learned")
        return self.client.get("/api/findings").json()


def wait(until: Callable[[], Any], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if until():
            return
        time.sleep(0.05)
    raise TimeoutError(what)
