"""What an evaluation is told, and what it gives: tasks, times and limits in; a table, seconds, logs and failures out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from handful.challenge import seeds
from handful.challenge.failures import Failure
from handful.challenge.sandbox import Limits
from handful.challenge.walls import Isolation, detect


@dataclass(frozen=True, kw_only=True)
class Times:
    """Seconds for each phase; ``load`` is importing and loading before one task, ``total`` the whole run."""

    load: float = 60.0
    train: float = 5 * 3600.0
    save: float = 120.0
    fit: float = 120.0
    predict: float = 120.0
    total: float = 5 * 3600.0


@dataclass
class Result:
    """What a run gave: one row per task, seconds by phase, the end of the logs, and the failure if there was one."""

    frame: pl.DataFrame | None = None
    tasks_id: str = ""
    failure: Failure | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    task_seconds: list[dict[str, float]] = field(default_factory=list)
    train_log: str = ""
    test_log: str = ""
    peak_bytes: int = 0

    @property
    def score(self) -> float | None:
        """Mean normalised accuracy over all tasks, or None for a run that failed."""
        return None if self.failure is not None or self.frame is None else float(self.frame["normalised"].mean())  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """How one submission is run: its tasks, its limits, and how it is contained.

    ``warm`` are modules that the meta-test's parent imports once for all tasks; torch imports dynamo when the first
    optimiser is made, which would cost every task that trains more than its fork does. ``hidden`` are installed packages
    that the submission must not see, ``devices`` the NVIDIA devices that it may use. ``without`` names walls that a test takes down, to show what they are for.
    """

    tasks_per_dataset: int
    secret: bytes
    times: Times = field(default_factory=Times)
    limits: Limits = field(default_factory=Limits)
    threads: int = 1
    trust: bool = False
    together: bool = False
    words: tuple[object, ...] = ()
    warm: tuple[str, ...] = ("torch._dynamo",)
    hidden: tuple[Path, ...] = ()
    devices: tuple[int, ...] = ()
    without: tuple[str, ...] = ()

    def isolation(self) -> Isolation:
        """Untrusted code runs contained or not at all."""
        return "none" if self.trust else detect()

    def seed(self, *words: object) -> int:
        """A seed for one use within this run."""
        return seeds.derive(self.secret, *self.words, *words)

    @property
    def mark(self) -> str:
        """Equal for two runs exactly when their tasks come from the same secret in the same way; tells nothing of it."""
        return seeds.commitment(self.secret, "\x00".join(map(str, self.words)))[:16]


class Deadline:
    """The evaluator's clock: no phase outlives the run."""

    def __init__(self, total: float) -> None:
        self.end = time.monotonic() + total

    def until(self, seconds: float) -> float:
        """The moment when a phase of ``seconds`` that begins now must end."""
        return min(self.end, time.monotonic() + seconds)

    def blame(self, failure: Failure) -> Failure:
        """A phase that was cut short by the end of the whole run is not to blame for itself."""
        if failure.code.startswith("TIMEOUT") and time.monotonic() >= self.end:
            return Failure("TIMEOUT_TOTAL", failure.phase, "the whole run's time was up", log=failure.log)
        return failure
