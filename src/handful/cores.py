"""How many cores this process may use: what the machine gives it, and at most ``HANDFUL_CORES``."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from handful.errors import BadInput

_ALONE: ContextVar[bool] = ContextVar("handful-one-core", default=False)


def cores() -> int:
    """Cores to use from here: one in a thread that works beside others, else all that this process is given."""
    return 1 if _ALONE.get() else given()


def stay_on_one() -> None:
    """Say that this thread has one core: those beside it have the others."""
    _ALONE.set(True)


@functools.cache
def given() -> int:
    """The cores of this process's affinity, a container's quota, and at most ``HANDFUL_CORES``."""
    try:
        found = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        found = os.cpu_count() or 1
    asked = os.environ.get("HANDFUL_CORES", "")
    if asked and not (asked.isdecimal() and int(asked)):
        raise BadInput(f"HANDFUL_CORES must be a whole number of at least 1, not {asked!r}")
    return max(1, min(found, math.ceil(min(found, quota())), int(asked or found)))


def quota(groups: Path = Path("/sys/fs/cgroup"), mine: Path = Path("/proc/self/cgroup")) -> float:
    """The processor time that control groups, this process's own and those above it, leave it, in cores."""
    least = math.inf
    for folder in _folders(groups, mine):
        for name in ("cpu.max", "cpu.cfs_quota_us"):  # the second and the first version of control groups
            try:
                words = (folder / name).read_text(encoding="ascii").split()
                if name == "cpu.cfs_quota_us":
                    words += (folder / "cpu.cfs_period_us").read_text(encoding="ascii").split()
                allowed, period = int(words[0]), int(words[1])
            except (OSError, ValueError, IndexError):  # no such file, or "max"
                continue
            if allowed > 0 and period > 0:
                least = min(least, allowed / period)
    return least


def _folders(groups: Path, mine: Path) -> Iterator[Path]:
    """Where the quotas may lie; a container sees its own group as the root, whatever path it is told."""
    try:
        lines = mine.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    yield groups
    yield groups / "cpu"
    for line in lines:
        _, kinds, path = (line.split(":", 2) + ["", ""])[:3]
        if kinds == "" or "cpu" in kinds.split(","):
            own = Path(path.lstrip("/"))
            for part in (own, *own.parents):
                yield groups / kinds / part
