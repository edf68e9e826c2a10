"""One submission from meta-training to its last task; labels, clock and scores stay on this side of the wall.

Meta-training runs once in a sandbox that sees training data only; what it saved is mounted read-only for the meta-test
tasks, each in a process that has seen no other.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from handful.challenge import protocol
from handful.challenge.failures import Failure
from handful.challenge.hidden import HiddenTasks
from handful.challenge.job import SandboxJob
from handful.challenge.learner import SandboxLearner
from handful.challenge.plan import Deadline, Result, RunPlan
from handful.challenge.protocol import FileBlock, JobStage
from handful.challenge.sandbox import PRELOAD, Limits, Session
from handful.runs.evaluate import evaluate
from handful.tasks.rule import Rule

_SAFE_PART = re.compile(r"\w[\w.\- ]{0,99}")


def run_submission(
    submission: Path,
    train: Path,
    rules: Mapping[str, Rule],
    plan: RunPlan,
    workspace: Path,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Run a submission (an unpacked folder) from meta-training to the last task of the rules, one rule per data set.

    ``train`` is a folder written by ``write_training``; ``workspace`` takes what ``save`` leaves. The result says how it
    went; only faults of the platform raise.
    """
    result = Result()
    clock = Deadline(plan.times.total)
    started = time.monotonic()
    saved = workspace / "saved"
    shutil.rmtree(saved, ignore_errors=True)
    try:
        meta_train(submission, train, saved, plan, clock, result)
        meta_test(submission, saved, HiddenTasks.of(rules, plan), plan, clock, result, progress)
    except Failure as failure:
        result.failure = clock.blame(failure)
    finally:
        result.seconds["total"] = time.monotonic() - started
    return result


def meta_test(
    submission: Path,
    saved: Path,
    tasks: HiddenTasks,
    plan: RunPlan,
    clock: Deadline,
    result: Result,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Ask the tasks one after another, each in a process of its own; the library evaluates the sandbox as any learner."""
    mounts = {"/submission": submission.resolve(), "/saved": saved.resolve()}
    begin = time.monotonic()
    # A library learner's own modules are ours: they can be imported before any submitted code.
    preload = PRELOAD + plan.warm + (("handful.challenge.bridge",) if (submission / "method.json").is_file() else ())
    with Session(
        plan.isolation(),
        mounts,
        plan.limits,
        plan.threads,
        preload,
        plan.together,
        copied=("/submission", "/saved"),
        hidden=plan.hidden,
        devices=plan.devices,
        without=plan.without,
    ) as session:
        paths = {"submission": session.place("/submission"), "saved": session.place("/saved")}

        def told(done: int) -> None:
            if progress is not None:
                progress(done, len(tasks))

        with SandboxLearner(session, paths, plan, clock, result, told) as learner:
            run = evaluate(learner, tasks, len(tasks), metrics="accuracy", engine="inline")
    result.frame, result.tasks_id = run.frame, run.identity["tasks_id"]
    result.seconds["test"] = time.monotonic() - begin


def meta_train(submission: Path, train: Path, saved: Path, plan: RunPlan, clock: Deadline, result: Result) -> None:
    """Meta-train in a sandbox with the training data alone and bring out what was saved, as bytes."""
    mounts = {"/submission": submission.resolve(), "/train": train.resolve()}
    begin = time.monotonic()
    with Session(
        plan.isolation(),
        mounts,
        plan.limits,
        plan.threads,
        copied=("/submission",),
        hidden=plan.hidden,
        devices=plan.devices,
        without=plan.without,
    ) as session:
        paths = {"submission": session.place("/submission"), "train": session.place("/train")}
        run_training(session, paths, saved, plan, clock, result)
    result.seconds["train"] = time.monotonic() - begin


def run_training(
    session: Session, paths: Mapping[str, str], saved: Path, plan: RunPlan, clock: Deadline, result: Result
) -> None:
    """Import, meta-train, save, each against its own limit."""
    with session.run("train", plan.seed("learner", "train") % (1 << 31), **paths) as job:
        try:
            job.expect(JobStage.LOADED, clock.until(plan.times.load), "import")
            job.expect(JobStage.TRAINED, clock.until(plan.times.train), "meta-train")
            until = clock.until(plan.times.save)
            job.expect(JobStage.SAVED, until, "save")
            receive_files(job, saved, plan.limits, until)
        finally:
            job.finish()
            result.train_log = job.text()
            result.peak_bytes = max(result.peak_bytes, job.peak)


def receive_files(job: SandboxJob, folder: Path, limits: Limits, until: float) -> None:
    """Write the stream of saved files into ``folder``: plain names, regular files, counted bytes."""
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    partial.chmod(0o755)
    count = total = 0
    target = None
    try:
        while True:
            try:
                block, data, name = protocol.unpack_block(bytes(job.receive(protocol.BLOCK_BYTES, until, "save")))
            except protocol.BadFrame as problem:
                raise job.failure("PROTOCOL", "save", f"the saved files did not arrive: {problem}") from None
            if block == FileBlock.DATA and target is None:
                raise job.failure("PROTOCOL", "save", "the saved files did not arrive: content without a file")
            if block == FileBlock.DATA and target is not None:
                total += len(data)
                if total > limits.saved_bytes:
                    raise job.failure("SAVE_ERROR", "save", f"save left more than {limits.saved_bytes} bytes")
                target.write(data)
                continue
            if target is not None:
                target.close()
                target = None
            if block == FileBlock.END:
                break
            count += 1
            if count > limits.saved_files:
                raise job.failure("SAVE_ERROR", "save", f"save left more than {limits.saved_files} files")
            parts = name.split("/")
            if len(parts) > 8 or not all(_SAFE_PART.fullmatch(part) for part in parts):
                raise job.failure("SAVE_ERROR", "save", "save left a file with a strange name; use letters and digits")
            place = partial.joinpath(*parts)
            try:
                place.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
                target = open(place, "xb")
            except OSError:
                raise job.failure("SAVE_ERROR", "save", "save left two files of one name") from None
        partial.rename(folder)
    finally:
        if target is not None:
            target.close()
        shutil.rmtree(partial, ignore_errors=True)
