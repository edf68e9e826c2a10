"""Where the time goes: named phases, each second counted once, however deep in the code it is spent."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar


class Clock:
    """Seconds by phase. A phase inside a phase is taken out of the outer one, so that shares never sum above the whole."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._open: list[str] = []
        self._since = 0.0

    def _turn(self) -> None:
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._since
        self._since = now

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def add(self, seconds: Mapping[str, float]) -> None:
        """Phases that another process spent."""
        for name, value in seconds.items():
            self.seconds[name] += value


_RUNNING: ContextVar[Clock | None] = ContextVar("handful-clock", default=None)


@contextmanager
def measuring() -> Iterator[Clock]:
    """A clock for everything below this block; an outer clock receives its phases at the end."""
    outer, clock = _RUNNING.get(), Clock()
    token = _RUNNING.set(clock)
    if outer is not None:
        outer._turn()
    try:
        yield clock
    finally:
        _RUNNING.reset(token)
        if outer is not None:
            outer._since = time.perf_counter()
            outer.add(clock.seconds)


@contextmanager
def timed(phase: str) -> Iterator[None]:
    """Count this block under a phase of the running clock, if there is one."""
    clock = _RUNNING.get()
    if clock is None:
        yield
    else:
        with clock.phase(phase):
            yield


def add(seconds: Mapping[str, float]) -> None:
    """Give the running clock phases that another process spent."""
    clock = _RUNNING.get()
    if clock is not None:
        clock.add(seconds)


def profile(seconds: Mapping[str, float], wall: float, processes: int = 1) -> dict[str, object]:
    """What `--profile` writes: seconds and shares by phase; the rest is what no phase claims (waiting, bookkeeping)."""
    whole = max(wall * max(1, processes), sum(seconds.values()), 1e-12)
    rows = sorted(seconds.items(), key=lambda item: -item[1])
    shares = {name: value / whole for name, value in rows}
    return {
        "wall_seconds": wall,
        "processes": processes,
        "seconds": dict(rows),
        "shares": shares,
        "rest": max(0.0, 1.0 - sum(shares.values())),
    }


def profile_text(facts: Mapping[str, object]) -> str:
    """The profile as a table to read."""
    seconds, shares = facts["seconds"], facts["shares"]
    assert isinstance(seconds, dict) and isinstance(shares, dict)
    of = f"{facts['processes']} processes for " if facts["processes"] != 1 else ""
    lines = [f"{'phase':<12} {'seconds':>9} {'share':>7}   of {of}{facts['wall_seconds']:.2f} s"]
    lines += [f"{name:<12} {value:9.3f} {100 * shares[name]:6.1f}%" for name, value in seconds.items()]
    lines.append(f"{'(rest)':<12} {'':>9} {100 * float(str(facts['rest'])):6.1f}%")
    return "\n".join(lines)
