"""Is the machine quiet enough to judge? Every benchmark prints this first."""

from __future__ import annotations

import os
import sys
import time
from typing import Any


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


def maml_tasks() -> list[Any]:
    """A meta-batch of eight 5-way 1-shot tasks with 5 queries per class, of 28x28 noise."""
    import numpy as np

    from handful.data.collection import Card, Collection, as_table
    from handful.tasks import NWay

    table = as_table({"k": np.repeat(np.arange(20), 20).astype(str)})
    images = np.random.default_rng(0).integers(0, 256, (400, 28, 28, 1), dtype=np.uint8)
    rule = NWay(Collection(Card("noise", "images", (28, 28, 1), ("k",), hash="0" * 64), table, images).whole, 5, 1, 5)
    return [rule.read(rule.draw(0, i)) for i in range(8)]


def normalised(backbone: Any, tasks: list[Any]) -> list[tuple[Any, ...]]:
    """Support, its labels, query and its labels of each task, as the backbone takes them."""
    import torch

    out = []
    for t in tasks:
        x, q = (backbone.normalise(torch.from_numpy(i)) for i in (t.support.images, t.query.images))
        out.append((x, torch.from_numpy(t.support.labels), q, torch.from_numpy(t.labels)))
    return out
