"""The evaluator's end of one running job: deadlines, bounded output, and the watch over memory.

Everything that is read here was written by code that wants to cheat, so reads have sizes and times of our own choosing.
"""

from __future__ import annotations

import contextlib
import functools
import os
import select
import signal
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from handful.challenge import protocol
from handful.challenge.failures import Failure
from handful.challenge.protocol import ChildReport, JobStage, Status

if TYPE_CHECKING:
    from handful.challenge.sandbox import Session

_TICK = 0.05
_TIMEOUTS = {
    "import": "IMPORT",
    "load": "IMPORT",
    "meta-train": "TRAIN",
    "save": "SAVE",
    "fit": "FIT",
    "predict": "PREDICT",
}


def descendants(pid: int) -> list[int]:
    """All processes below ``pid``, itself included."""
    found, queue = [], [pid]
    while queue:
        at = queue.pop()
        found.append(at)
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{at}/task"):
                with contextlib.suppress(OSError), open(f"/proc/{at}/task/{thread}/children", encoding="ascii") as file:
                    queue += [int(word) for word in file.read().split()]
    return found


def _fields(path: str, names: tuple[str, ...]) -> int | None:
    """The sum of lines given in kB, or None where there is no such line."""
    total = None
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(names):
                total = (total or 0) + (int(line.split()[1]) << 10)
    return total


def _held(pid: int, file: str, names: tuple[str, ...]) -> tuple[int, int]:
    """What a process holds, and the thread that said so: one whose first thread has ended speaks through another."""
    found = _fields(f"/proc/{pid}/{file}", names)
    if found is not None:
        return found, pid
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            found = _fields(f"/proc/{thread}/{file}", names)
            if found is not None:
                return found, int(thread)
    return 0, pid


@functools.cache
def _socket_bytes() -> int:
    """The most that one local socket can hold unread: what was sent is counted with its overhead, twice at worst."""
    try:
        with open("/proc/sys/net/core/wmem_default", encoding="ascii") as file:
            return 2 * int(file.read())
    except (OSError, ValueError):
        return 2 * 212_992


def _buffers(threads: Iterable[int]) -> int:
    """An upper bound of what local sockets hold, in every network namespace but our own."""
    seen = {os.stat("/proc/self/ns/net").st_ino}
    total = 0
    for thread in threads:
        with contextlib.suppress(OSError):
            place = os.stat(f"/proc/{thread}/ns/net").st_ino
            if place not in seen:
                with open(f"/proc/{thread}/net/unix", "rb") as file:
                    total += _socket_bytes() * (file.read().count(b"\n") - 1)
                seen.add(place)
    return total


def resident(pid: int, limit: int) -> int:
    """Memory that the processes below ``pid`` hold together, without files mapped from disk.

    Tables of pages and the buffers of local sockets count too. Forked processes share pages. The quick sum counts these
    each time; only when it passes ``limit`` are the shared pages divided among their holders.
    """
    pids = descendants(pid)
    held = [_held(p, "status", ("RssAnon:", "RssShmem:", "VmPTE:")) for p in pids]
    quick = sum(size for size, _ in held) + _buffers(thread for _, thread in held)
    if quick <= limit:
        return quick
    shared = sum(_held(p, "smaps_rollup", ("Pss_Anon:", "Pss_Shmem:"))[0] for p in pids)
    tables = sum(_fields(f"/proc/{thread}/status", ("VmPTE:",)) or 0 for _, thread in held)
    return shared + tables + _buffers(thread for _, thread in held)


def files_made(pid: int) -> int:
    """Files in the /tmp and /dev/shm that the processes below ``pid`` see."""
    most = 0
    for each in descendants(pid):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{each}/ns/mnt").st_ino != os.stat("/proc/self/ns/mnt").st_ino:
                counts = [os.statvfs(f"/proc/{each}/root{place}") for place in ("/tmp", "/dev/shm")]
                most = max(most, *(count.f_files - count.f_ffree for count in counts))
    return most


class SandboxJob:
    """A running job. Use as a context manager: whatever happens, the job is killed at the end."""

    def __init__(self, session: Session, to_child: int, from_child: int, log: int) -> None:
        self.session = session
        self.to_child, self.from_child, self.log = to_child, from_child, log
        for fd in (to_child, from_child, log):
            os.set_blocking(fd, False)
        self.tail = bytearray()
        self.printed = 0
        self.peak = 0
        self.code: int | None = None
        self._log_open = True
        self._next_look = 0.0

    def __enter__(self) -> SandboxJob:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def finish(self) -> None:
        """Kill the job if it still runs, keep the end of its output, close the pipes."""
        if self.to_child < 0:
            return
        os.close(self.to_child)
        self.to_child = -1
        try:
            if self.code is None:
                self.code = self.session.end_job()
        finally:
            self._drain()
            os.close(self.from_child)
            os.close(self.log)

    def text(self) -> str:
        """The end of what the job printed."""
        kept = self.tail.decode("utf-8", "replace")
        lost = self.printed - len(self.tail)
        return f"[{lost} bytes before this were dropped]\n{kept}" if lost > 0 else kept

    def _drain(self) -> None:
        while self._log_open:
            try:
                data = os.read(self.log, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                self._log_open = False
                return
            self.printed += len(data)
            self.tail += data
            keep = self.session.limits.tail_bytes
            if len(self.tail) > keep:
                del self.tail[:-keep]
            if self.printed > self.session.limits.output_bytes:
                return

    def _look(self, phase: str) -> None:
        """Check output and memory; raise when a limit is passed."""
        self._drain()
        limits = self.session.limits
        if self.printed > limits.output_bytes:
            raise self.failure(
                "OUTPUT_LIMIT", phase, f"the run printed more than {limits.output_bytes >> 20} MB; print less"
            )
        now = time.monotonic()
        if now < self._next_look or self.session.isolation == "none":
            return
        used = resident(self.session.pid, limits.memory_bytes)
        self.peak = max(self.peak, used)
        took = time.monotonic() - now
        self._next_look = now + max(_TICK, 5 * took)
        if used > limits.memory_bytes:
            raise self.failure("OOM", phase, f"the processes together used more than {limits.memory_bytes >> 20} MB")
        # bubblewrap has no option for the number of files; as root the mount itself has the limit.
        if self.session.isolation == "userns" and files_made(self.session.pid) > limits.inodes:
            raise self.failure("OOM", phase, f"the run made more than {limits.inodes} files in /tmp or /dev/shm")

    def failure(self, code: str, phase: str, message: str, error: str = "") -> Failure:
        """End the job and make its failure, with the end of its output."""
        self.finish()
        return Failure(code, phase, message, error, self.text())

    def _wait(self, fd: int, write: bool, deadline: float, phase: str) -> None:
        poll = select.poll()
        poll.register(fd, select.POLLOUT if write else select.POLLIN)
        if self._log_open:
            poll.register(self.log, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise self.failure(f"TIMEOUT_{_TIMEOUTS[phase]}", phase, f"{phase} was stopped when its time was up")
            events = dict(poll.poll(min(left, _TICK) * 1000))
            self._look(phase)
            if not self._log_open and self.log in events:
                poll.unregister(self.log)
            if fd in events:
                return

    def send(self, buffers: Iterable[memoryview], deadline: float, phase: str) -> None:
        """Write everything before ``deadline``."""
        for buffer in buffers:
            while buffer:
                try:
                    buffer = buffer[os.write(self.to_child, buffer[: 1 << 20]) :]
                except BlockingIOError:
                    self._wait(self.to_child, True, deadline, phase)
                except BrokenPipeError:
                    raise self._crashed(phase) from None

    def receive(self, size: int, deadline: float, phase: str) -> bytearray:
        """Read exactly ``size`` bytes before ``deadline``."""
        data = bytearray(size)
        view, done = memoryview(data), 0
        while done < size:
            try:
                got = os.readv(self.from_child, [view[done : done + (1 << 20)]])
            except BlockingIOError:
                self._wait(self.from_child, False, deadline, phase)
                continue
            if got == 0:
                raise self._crashed(phase)
            done += got
        return data

    def expect(self, stage: JobStage, deadline: float, phase: str) -> ChildReport:
        """The child's report of ``stage``, which must be good."""
        try:
            frame = ChildReport.unpack(bytes(self.receive(protocol.FRAME_BYTES, deadline, phase)))
        except protocol.BadFrame:
            raise self.failure("PROTOCOL", phase, "the process wrote something else than its report") from None
        if frame.status != Status.OK:
            raise self.failure(frame.status.name, phase, frame.text, frame.error)
        if frame.stage != stage:
            raise self.failure("PROTOCOL", phase, f"the process reported {frame.stage.name} where {stage.name} was due")
        return frame

    def expect_silence(self, phase: str) -> None:
        """Nothing may be in the pipe that was not asked for."""
        poll = select.poll()
        poll.register(self.from_child, select.POLLIN)
        if any(event & select.POLLIN for _, event in poll.poll(0)):
            raise self.failure("PROTOCOL", phase, "the process wrote to the evaluator before it was asked")

    def _crashed(self, phase: str) -> Failure:
        code = self.session.wait_job(2.0)
        if code is not None:
            self.code = code
        if code is not None and code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
            if -code == signal.SIGKILL:
                return self.failure("OOM", phase, "the system killed the process, most likely for its memory")
            return self.failure("CRASH", phase, f"the process was ended by {name}")
        return self.failure("CRASH", phase, "the process ended without an answer")
