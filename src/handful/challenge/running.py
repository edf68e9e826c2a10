"""Running one submission through one phase: archive, league check, seeds, scores, what the participant is told."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from handful._version import __version__
from handful.challenge import results, scores
from handful.challenge.archive import ArchiveLimits, root_of, unpack, weights_in
from handful.challenge.evaluate import run_submission
from handful.challenge.failures import Failure, clean_text, tell
from handful.challenge.learner import facts_of
from handful.challenge.packages import hidden as packages_hidden
from handful.challenge.plan import Result, RunPlan
from handful.challenge.sources import Data
from handful.challenge.walls import check_hidden
from handful.errors import BadInput
from handful.runs.store import digest, stack

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
    learner: dict[str, Any] = field(default_factory=dict)

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
    name: str = "",
    now: str | None = None,
    words: tuple[object, ...] = (),
    pretrained: bool = True,
    packages: tuple[str, ...] = (),
    devices: tuple[int, ...] = (),
    trust: bool = False,
    tasks: int | None = None,
    seeds: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Run a submission (zip or folder) in ``phase`` with all its seeds; files of the result go into ``workspace``.

    ``now`` is the phase the challenge is in, which decides which data may be read. ``words`` make the tasks of one
    submission differ from another's; leave them empty where all must get the same tasks. ``name`` is what the run's
    folder calls the submission.
    """
    challenge, spec = data.challenge, data.challenge.phase(phase)
    if not trust:
        check_hidden([data.where(each) for each in challenge.ranked] + [data.state])
    outcome, started = Outcome(), time.monotonic()
    frames: list[pl.DataFrame] = []
    asked: list[str] = []
    times = challenge.limits.times(spec.hours)
    hidden = () if trust else packages_hidden(pretrained, packages)
    try:
        root = prepare(submission, workspace / "code", challenge.limits.upload_mb << 20, pretrained)
        for repeat in range(seeds or spec.seeds):
            count, left = 0, times.total
            for stage in data.stages(phase, now or phase, seed=repeat):
                plan = RunPlan(
                    tasks_per_dataset=tasks or spec.tasks_per_dataset,
                    secret=secret,
                    times=replace(times, total=left),
                    limits=challenge.limits.limits(),
                    threads=challenge.limits.threads,
                    trust=trust,
                    hidden=hidden,
                    devices=devices,
                    words=(challenge.name, phase, *words, "seed", repeat, stage.name),
                )
                result = run_submission(root, stage.train, stage.rules, plan, workspace, progress=progress)
                left = max(1.0, left - result.seconds["total"])
                _keep_log(outcome, result)
                if result.failure is not None:
                    raise result.failure
                assert result.frame is not None
                frames.append(result.frame.with_columns(repeat=pl.lit(repeat, pl.Int64), task=pl.col("task") + count))
                asked.append(result.tasks_id)
                count += len(result.frame)
        outcome.frame = stack(frames)
        outcome.learner = facts_of(root)
    except Failure as failure:
        outcome.failure = failure
        outcome.told = tell(failure, spec.log, TAIL)
    finally:
        outcome.seconds = time.monotonic() - started
        shutil.rmtree(workspace / "saved", ignore_errors=True)
    if outcome.frame is not None:
        identity = identify(data, phase, asked, name or submission.stem, outcome.learner)
        title = f"{challenge.title}: {phase} phase"
        outcome.facts = results.write(
            outcome.frame, workspace / "results", outcome.seconds, title, identity=identity, learner=outcome.learner
        )
        outcome.told = {"log": _log_by(spec.log, outcome.log)}
    return outcome


def _keep_log(outcome: Outcome, result: Result) -> None:
    outcome.task_seconds += result.task_seconds
    outcome.log = f"--- meta-training ---\n{result.train_log}\n--- first task ---\n{result.test_log}\n"


def _log_by(policy: str, log: str) -> str:
    return log if policy == "full" else clean_text(log)[-TAIL:] if policy == "tail" else ""


def identify(data: Data, phase: str, asked: list[str], name: str, learner: dict[str, Any]) -> dict[str, Any]:
    """What makes two challenge runs the same run; ``asked`` holds the ids of the tasks, in which the secret is hashed."""
    collection, challenge = data.collection(phase, phase), data.challenge
    return {
        "collection": collection.id,
        "part": collection.whole.id,
        "rule": {"rule": challenge.tasks.rule, **challenge.tasks.options, "protocol": challenge.protocol.kind},
        "tasks_id": digest(asked),
        "seed": "committed",
        "metrics": ["accuracy"],
        "method": name,
        "options": {"net": learner.get("net", "")},
        "challenge": challenge.name,
        "phase": phase,
        "version": __version__,
    }
