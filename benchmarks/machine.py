"""Is the machine quiet enough to judge? Every benchmark prints this first."""

from __future__ import annotations

import os
import sys
import time


def others(seconds: float = 1.0) -> float:
    """Cores that other processes kept busy while this one slept (the load average where /proc/stat is missing)."""
    try:
        before = _ticks()
        time.sleep(seconds)
        after = _ticks()
    except OSError:
        return os.getloadavg()[0]
    total = sum(after) - sum(before)
    idle = after[3] + after[4] - before[3] - before[4]
    return (1 - idle / max(total, 1)) * (os.cpu_count() or 1)


def _ticks() -> list[int]:
    with open("/proc/stat", encoding="ascii") as stream:
        return [int(x) for x in stream.readline().split()[1:9]]


def quiet(cores: float = 0.3) -> bool:
    """Print how busy the machine is; False (and a word on why) when others are using it."""
    used = others()
    busy = used > cores
    print(
        f"others use {used:.2f} of {os.cpu_count()} cores, python {sys.version.split()[0]}"
        + (": BUSY, ratios are not judged" if busy else "")
    )
    return not busy


def verdict(name: str, value: float, target: float, judged: bool, at_least: bool = True) -> None:
    """One line: the ratio, its target, and whether it is met (not said on a busy machine)."""
    met = value >= target if at_least else value <= target
    word = ("met" if met else "MISSED") if judged else "not judged"
    print(f"{name}: {value:.2f} (target {'>=' if at_least else '<='} {target:g}): {word}", flush=True)
