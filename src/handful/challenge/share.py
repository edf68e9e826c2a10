"""A sandbox's share of the machine: CPUs of its own, and a cgroup (version 2) where this user may make one.

Without a cgroup the evaluator watches memory itself (``job.py``), and the processes are limited by their user.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import secrets
import tempfile
import time
from pathlib import Path

_NEEDED = {"memory", "pids"}


class Cpus:
    """As many CPUs as threads, by preference ones that no other sandbox of this user holds."""

    def __init__(self, threads: int) -> None:
        self.held: list[int] = []
        allowed = sorted(os.sched_getaffinity(0))
        start = random.SystemRandom().randrange(len(allowed))
        order = allowed[start:] + allowed[:start]
        free = [cpu for cpu in order if len(self.held) < threads and self._take(cpu)]
        self.chosen = frozenset((free + [cpu for cpu in order if cpu not in free])[:threads])

    def _take(self, cpu: int) -> bool:
        folder = Path(tempfile.gettempdir()) / f"handful-cpus-{os.getuid()}"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                return False
            fd = os.open(folder / str(cpu), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            return False
        self.held.append(fd)
        return True

    @contextlib.contextmanager
    def pinned(self):  # type: ignore[no-untyped-def]
        """What this thread starts meanwhile runs on these CPUs only, and so does all that comes of it."""
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self.chosen)
        try:
            yield
        finally:
            os.sched_setaffinity(0, before)

    def free(self) -> None:
        """Let other sandboxes have them."""
        while self.held:
            os.close(self.held.pop())


def cgroup_base(proc: Path = Path("/proc/self")) -> Path | None:
    """The folder in which this user may make cgroups that limit memory and processes, or None."""
    try:
        own = next(line[3:] for line in (proc / "cgroup").read_text().splitlines() if line.startswith("0::"))
        fields = [line.split() for line in (proc / "mountinfo").read_text().splitlines()]
        top = Path(next(line[4] for line in fields if line[line.index("-") + 1] == "cgroup2"))
    except (OSError, StopIteration, ValueError):
        return None
    here = top / own.lstrip("/")
    for place in (here, here.parent):
        if place != top.parent and place.is_relative_to(top):
            with contextlib.suppress(OSError):
                given = set((place / "cgroup.subtree_control").read_text().split())
                if given >= _NEEDED and os.access(place, os.W_OK):
                    return place
    return None


class Cgroup:
    """A cgroup for one sandbox; the kernel ends what passes its limits."""

    def __init__(self, base: Path, memory_bytes: int, processes: int, threads: int) -> None:
        self.path = base / f"handful-{secrets.token_hex(8)}"
        self.path.mkdir()
        try:
            (self.path / "memory.max").write_text(str(memory_bytes))
            (self.path / "pids.max").write_text(str(processes))
        except OSError:
            self.remove()
            raise
        for name, value in (("memory.swap.max", "0"), ("cpu.max", f"{threads * 100_000} 100000")):
            with contextlib.suppress(OSError):
                (self.path / name).write_text(value)

    @staticmethod
    def make(memory_bytes: int, processes: int, threads: int) -> Cgroup | None:
        """A cgroup, or None where this user may not make one."""
        base = cgroup_base()
        if base is None:
            return None
        try:
            return Cgroup(base, memory_bytes, processes, threads)
        except OSError:
            return None

    def remove(self) -> None:
        """End what is left in it and take it away."""
        with contextlib.suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")
        for _ in range(50):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.02)


def launcher(cgroup: Cgroup | None, oom_score: int) -> list[str]:
    """A prefix for a command: into the cgroup, and first in line when the machine is short of memory."""
    script = f"echo {oom_score} >/proc/self/oom_score_adj 2>/dev/null; "
    if cgroup is not None:
        script += 'echo 0 >"$1/cgroup.procs" || exit 72; '
    return ["/bin/sh", "-c", script + 'shift; exec "$@"', "sh", str(cgroup.path) if cgroup else ""]
