"""Is the machine quiet enough to judge? Every benchmark prints this first."""

from __future__ import annotations

import os
import sys


def quiet(cores: float = 0.6) -> bool:
    """Print load and cores; False (and a word on why) when others are using the machine."""
    load = os.getloadavg()[0]
    busy = load > cores
    print(
        f"load {load:.2f} on {os.cpu_count()} cores, python {sys.version.split()[0]}"
        + (": BUSY, ratios are not judged" if busy else "")
    )
    return not busy


def verdict(name: str, value: float, target: float, judged: bool, at_least: bool = True) -> None:
    """One line: the ratio, its target, and whether it is met (not said on a busy machine)."""
    met = value >= target if at_least else value <= target
    word = ("met" if met else "MISSED") if judged else "not judged"
    print(f"{name}: {value:.2f} (target {'>=' if at_least else '<='} {target:g}): {word}")
