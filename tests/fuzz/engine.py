"""Damaged files by the thousand, each read in a process that may die of it."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PATIENCE = 120
START = 900
"""Until the first input: a crowded machine may take minutes to import what is tried."""


@dataclass
class Tally:
    """What came of the inputs of one reader; a fault carries the number that makes its input again."""

    reader: str
    came: Counter[str] = field(default_factory=Counter)
    faults: dict[int, str] = field(default_factory=dict)

    next: int = 0

    @property
    def inputs(self) -> int:
        return sum(self.came.values())

    def __iadd__(self, more: Tally) -> Tally:
        self.came += more.came
        self.faults |= more.faults
        self.next = more.next
        return self


def fuzz(reader: str, seed: int, first: int, last: int, until: float = float("inf")) -> Tally:
    """Inputs ``first`` to ``last`` of a reader, as many as there is time for; the numbers make the inputs."""
    tally, at = Tally(reader, next=first), first
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    while at < last and time.monotonic() < until:
        with tempfile.TemporaryDirectory(prefix="handful-fuzz-", dir=memory) as room:
            at = _block(tally, seed, at, last, until, room)
    return tally


def again(reader: str, seed: int, number: int) -> dict[str, str]:
    """One input in this process, whose debugger and traceback then show what happens; what was damaged stays."""
    from fuzz import work
    from fuzz.readers import READERS

    room = Path(tempfile.mkdtemp(prefix="handful-fuzz-"))
    READERS[reader].make(room / "sound")
    files = work.content(room / "sound")
    return {"room": str(room), **work.attempt(READERS[reader], room, files, seed, number, quiet=False)}


def _block(tally: Tally, seed: int, first: int, last: int, until: float, room: str) -> int:
    """One process, until it is through, dead, out of time or out of patience; the number to go on with."""
    command = [sys.executable, str(TESTS / "fuzz" / "work.py"), tally.reader, *map(str, (seed, first, last)), room]
    paths = os.pathsep.join(p for p in sys.path if p)
    env = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "RUST_BACKTRACE": "0"}
    complaints = Path(room) / "complaints"
    with open(complaints, "wb") as stderr:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=env)
    assert process.stdout
    begun, done, complaint = -1, first, ""
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        buffer = b""
        while True:
            if not ready.select(PATIENCE if begun >= first else START):
                complaint = f"took more than {PATIENCE if begun >= first else START} seconds"
                break
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                process.wait(PATIENCE)
                break
            *told, buffer = (buffer + data).split(b"\n")
            for line in told:
                said = json.loads(line)
                if "begin" in said:
                    begun = said["begin"]
                    continue
                done = tally.next = said["end"] + 1
                tally.came[said["came"]] += 1
                if said["came"] == "fault":
                    tally.faults[said["end"]] = said["why"]
            if time.monotonic() >= until:
                break
    process.kill()
    code = process.wait()
    process.stdout.close()
    if done >= last or (time.monotonic() >= until and not complaint):
        return last
    if begun < done:  # it never came to an input, or died between two
        said = complaints.read_text(errors="replace").strip().splitlines()[-3:]
        raise RuntimeError(f"the reader {tally.reader} cannot be tried (exit code {code}): {' '.join(said)}")
    tally.came["fault"] += 1
    tally.faults[begun] = complaint or f"the process died ({code})"
    tally.next = begun + 1
    return begun + 1
