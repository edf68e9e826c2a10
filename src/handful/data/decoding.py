"""Decoding many files on all cores, straight into a memory-mapped array.

Workers are plain processes of this module that talk JSON lines over pipes: they need nothing of the caller's main
module, pickle nothing, do not hear Ctrl-C, and end when their input does.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from queue import Empty, Queue
from typing import IO, Any

import numpy as np

from handful.cores import cores
from handful.data.images import BadImage, decode
from handful.data.sources import open_source
from handful.errors import BadInput

CHUNK = 64
ALONE = 200


@dataclass(frozen=True)
class DecodePlan:
    """What every worker needs to know: where bytes come from, where pixels go, how they are made.

    Without ``array`` nothing is written, and ``digests`` asks for a hash of the whole image's pixels instead.
    """

    source: str
    array: str | None
    size: int | None
    grey: bool = False
    invert: bool = False
    digests: bool = False


@dataclass(frozen=True)
class DecodeJob:
    """One file and the rows it fills: ``rows[i]`` takes the picture after ``turns[i]`` quarter turns anticlockwise."""

    file: str
    rows: tuple[int, ...]
    turns: tuple[int, ...]


@dataclass(frozen=True)
class Done:
    """What came of a chunk: how many files, which were unusable and why, and the digests by row."""

    files: int
    bad: tuple[tuple[str, str], ...] = ()
    digests: dict[int, str] = field(default_factory=dict)


def jobs_of(files: Sequence[str], turns: Sequence[int]) -> list[DecodeJob]:
    """Rows in order; neighbours that come from one file are decoded once."""
    jobs = []
    for file, rows in groupby(range(len(files)), key=files.__getitem__):
        numbers = tuple(rows)
        jobs.append(DecodeJob(file, numbers, tuple(turns[r] for r in numbers)))
    return jobs


def decode_all(plan: DecodePlan, jobs: Sequence[DecodeJob], workers: int | None = None) -> Iterator[Done]:
    """Decode every job, in any order; few files are decoded in this process."""
    chunks = [jobs[i : i + CHUNK] for i in range(0, len(jobs), CHUNK)]
    workers = min(workers or cores(), len(chunks))
    if workers <= 1 or len(jobs) < ALONE:
        decoder = Decoder(plan)
        for chunk in chunks:
            yield decoder(chunk)
        return
    crew: list[DecodeWorker] = []
    threads: list[threading.Thread] = []
    todo: Queue[Sequence[DecodeJob] | None] = Queue()
    done: Queue[Done | BaseException] = Queue()
    for share in [*chunks, *[None] * workers]:
        todo.put(share)
    try:
        for _ in range(workers):
            crew.append(DecodeWorker(plan))
            threads.append(threading.Thread(target=_serve, args=(crew[-1], todo, done), daemon=True))
            threads[-1].start()
        for _ in chunks:
            answer = _next(done)
            if isinstance(answer, BaseException):
                raise answer
            yield answer
    finally:
        for worker in crew:
            worker.close()
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def _next(done: Queue[Done | BaseException]) -> Done | BaseException:
    # Polars installs a signal handler that restarts waits: without a timeout Ctrl-C would be heard only after a chunk.
    while True:
        try:
            return done.get(timeout=0.1)
        except Empty:
            pass


def _serve(worker: DecodeWorker, todo: Queue[Sequence[DecodeJob] | None], done: Queue[Done | BaseException]) -> None:
    while (chunk := todo.get()) is not None:
        try:
            done.put(worker(chunk))
        except BaseException as error:
            done.put(error)
            return


class Decoder:
    """Decodes chunks in this process."""

    def __init__(self, plan: DecodePlan):
        self.plan = plan
        self.source = open_source(plan.source)
        self.array = np.load(plan.array, mmap_mode="r+", allow_pickle=False) if plan.array else None

    def __call__(self, chunk: Sequence[DecodeJob]) -> Done:
        bad, digests = [], {}
        for job in chunk:
            try:
                pixels = decode(self.source.read(job.file), job.file, self.plan.size, self.plan.grey)
            except BadImage as error:
                bad.append((job.file, error.reason))
                continue
            except BadInput as error:
                bad.append((job.file, str(error).removeprefix(self.source.where(job.file)).strip()))
                continue
            if self.plan.invert:
                pixels = 255 - pixels
            for row, turn in zip(job.rows, job.turns, strict=True):
                turned = np.rot90(pixels, turn)
                if self.array is not None:
                    self.array[row] = turned
                if self.plan.digests:
                    digests[row] = pixel_digest(turned)
        return Done(len(chunk), tuple(bad), digests)


def pixel_digest(pixels: np.ndarray) -> str:
    """Equal for images of equal shape and pixels."""
    head = repr(pixels.shape).encode()
    return hashlib.blake2b(head + np.ascontiguousarray(pixels).tobytes(), digest_size=16).hexdigest()


class DecodeWorker:
    """A process that decodes chunks."""

    def __init__(self, plan: DecodePlan):
        paths = os.pathsep.join(p for p in sys.path if p)
        self.complaints: IO[bytes] = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "handful.data.decoding"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
            text=True,
            encoding="utf-8",
        )
        self.first: dict[str, Any] | None = asdict(plan)

    def __call__(self, chunk: Sequence[DecodeJob]) -> Done:
        assert self.process.stdin and self.process.stdout
        try:
            if self.first is not None:
                print(json.dumps(self.first), file=self.process.stdin)
                self.first = None
            print(json.dumps([[j.file, j.rows, j.turns] for j in chunk]), file=self.process.stdin, flush=True)
            line = self.process.stdout.readline()
        except (OSError, ValueError):
            line = ""
        if not line:
            code = self.process.wait()
            self.complaints.seek(0)
            last = self.complaints.read().decode(errors="replace").strip().splitlines()[-1:] or [f"exit code {code}"]
            raise BadInput(
                f"a decoding process died ({last[0]}) between {chunk[0].file} and {chunk[-1].file}; "
                "see whether memory ran out, or pack with one worker"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"decoding failed in a worker:\n{answer['error']}")
        return Done(
            answer["files"], tuple(map(tuple, answer["bad"])), {int(k): v for k, v in answer["digests"].items()}
        )

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.complaints):
            try:
                if stream is not None:
                    stream.close()
            except OSError:
                pass  # unsent bytes to a process that is gone


def work(lines: IO[str], out: IO[str]) -> None:
    """A worker's life: a plan, then chunks until the input ends."""
    first = lines.readline()
    if not first:
        return
    decoder = Decoder(DecodePlan(**json.loads(first)))
    for line in lines:
        try:
            answer: dict[str, Any] = asdict(decoder([DecodeJob(f, tuple(r), tuple(t)) for f, r, t in json.loads(line)]))
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    work(sys.stdin, sys.stdout)
