"""Running one submission through one phase: archive, league check, seeds, scores, what the participant is told."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from handful.challenge import scores
from handful.challenge.archive import ArchiveLimits, root_of, unpack, weights_in
from handful.challenge.evaluate import evaluate
from handful.challenge.failures import Failure, clean_text, tell
from handful.challenge.packages import hidden as packages_hidden
from handful.challenge.plan import Result, RunPlan, TaskRow
from handful.challenge.sources import Data
from handful.challenge.spec import PHASES
from handful.challenge.walls import check_hidden
from handful.errors import BadInput
from handful.runs.store import RunFolder

TAIL = 4000


@dataclass
class Outcome:
    """How a submission did in a phase; ``failure`` or ``frame`` is set."""

    frame: pl.DataFrame | None = None
    failure: Failure | None = None
    seconds: float = 0.0
    task_seconds: list[dict[str, float]] = field(default_factory=list)
    log: str = ""
    told: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def score(self) -> float | None:
        """The score that counts: the worst seed's, or None."""
        return None if self.frame is None else scores.final_score(self.frame).value


def prepare(archive: Path, folder: Path, upload_bytes: int, pretrained: bool = True) -> Path:
    """Unpack a submission and check what can be checked without running it; give the folder of model.py."""
    try:
        if archive.is_dir():
            shutil.copytree(archive, folder, symlinks=True)
        else:
            unpack(archive, folder, ArchiveLimits(archive_bytes=upload_bytes))
        root = root_of(folder)
    except BadInput as error:
        raise Failure("BAD_ARCHIVE", "unpack", str(error)) from error
    if not pretrained and (found := weights_in(root)):
        raise Failure("WEIGHTS", "unpack", f"{found[0]} looks like stored weights, which this league forbids")
    return root


def execute(
    data: Data,
    phase: str,
    submission: Path,
    workspace: Path,
    *,
    secret: bytes,
    now: str | None = None,
    words: tuple[object, ...] = (),
    pretrained: bool = True,
    packages: tuple[str, ...] = (),
    trust: bool = False,
    tasks: int | None = None,
    seeds: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Run a submission (zip or folder) in ``phase`` with all its seeds; files of the result go into ``workspace``.

    ``now`` is the phase the challenge is in, which decides which data may be read. ``words`` make the tasks of one
    submission differ from another's; leave them empty where all must get the same tasks.
    """
    challenge, spec = data.challenge, data.challenge.phases[phase]  # type: ignore[index]
    if not trust:
        check_hidden([data.where(name) for name in PHASES[1:]] + [data.state])
    outcome, repeats, started = Outcome(), [], time.monotonic()
    times = challenge.limits.times(spec.hours)
    hidden = () if trust else packages_hidden(pretrained, packages)
    try:
        root = prepare(submission, workspace / "code", challenge.limits.upload_mb << 20, pretrained)
        for repeat in range(seeds or spec.seeds):
            rows: list[TaskRow] = []
            left = times.total
            for stage in data.stages(phase, now or phase, seed=repeat):
                plan = RunPlan(
                    tasks_per_dataset=tasks or spec.tasks_per_dataset,
                    secret=secret,
                    times=replace(times, total=left),
                    limits=challenge.limits.limits(),
                    threads=challenge.limits.threads,
                    trust=trust,
                    hidden=hidden,
                    words=(challenge.name, phase, *words, "seed", repeat, stage.name),
                )
                result = evaluate(root, stage.train, stage.source, plan, workspace, progress=progress)
                left = max(1.0, left - result.seconds["total"])
                _keep_log(outcome, result)
                if result.failure is not None:
                    raise result.failure
                rows += [replace(row, task=len(rows) + i) for i, row in enumerate(result.rows)]
            repeats.append(rows)
        outcome.frame = scores.frame_of(repeats)
    except Failure as failure:
        outcome.failure = failure
        outcome.told = tell(failure, spec.log, TAIL)
    finally:
        outcome.seconds = time.monotonic() - started
        shutil.rmtree(workspace / "saved", ignore_errors=True)
    if outcome.frame is not None:
        title = f"{challenge.title}: {phase} phase"
        outcome.facts = scores.write(outcome.frame, workspace / "results", outcome.seconds, title)
        outcome.told = {"log": _log_by(spec.log, outcome.log)}
    return outcome


def _keep_log(outcome: Outcome, result: Result) -> None:
    outcome.task_seconds += result.task_seconds
    outcome.log = f"--- meta-training ---\n{result.train_log}\n--- first task ---\n{result.test_log}\n"


def _log_by(policy: str, log: str) -> str:
    return log if policy == "full" else clean_text(log)[-TAIL:] if policy == "tail" else ""


def write_run(outcome: Outcome, data: Data, phase: str, name: str, folder: Path) -> None:
    """The run as any other run of the library: run.json and tasks.parquet."""
    if outcome.frame is None:
        return
    collection = data.collection(phase, phase)
    identity = {
        "collection": collection.id,
        "part": collection.whole.id,
        "rule": {"rule": "any-way", **data.challenge.tasks.model_dump(), "protocol": data.challenge.protocol.kind},
        "seed": "committed",
        "tasks_id": f"{data.challenge.name}/{phase}",
        "method": name,
        "metrics": ["accuracy"],
        "challenge": data.challenge.name,
    }
    store = RunFolder(folder, identity)
    overhead = [each["load"] + each["end"] for each in outcome.task_seconds]
    store.finish(outcome.frame, None, {"seconds": outcome.seconds, "load_and_end_seconds": overhead})
