"""The evaluator: it holds labels, clock and scores, and never imports submitted code.

Meta-training runs once in a sandbox that sees training data only; what it saved is mounted read-only for the meta-test
tasks, each in a process that has seen no other.
"""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from handful.challenge import protocol
from handful.challenge.failures import Failure
from handful.challenge.job import SandboxJob
from handful.challenge.plan import Deadline, HiddenTask, Result, RunPlan, TaskRow, TaskSource
from handful.challenge.protocol import FileBlock, JobStage
from handful.challenge.sandbox import PRELOAD, Limits, Session
from handful.metrics.accuracy import accuracies

_SAFE_PART = re.compile(r"\w[\w.\- ]{0,99}")


def evaluate(
    submission: Path,
    train: Path,
    source: TaskSource,
    plan: RunPlan,
    workspace: Path,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Result:
    """Run a submission (an unpacked folder) from meta-training to the last task.

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
        order = interleave(source.datasets(), plan.tasks_per_dataset, plan.seed("order"))
        meta_test(submission, saved, source, order, plan, clock, result, progress)
    except Failure as failure:
        result.failure = clock.blame(failure)
    finally:
        result.seconds["total"] = time.monotonic() - started
    return result


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


def interleave(datasets: list[str], each: int, seed: int) -> list[tuple[str, int]]:
    """All (data set, number) pairs in an order that tells nothing about the data set."""
    pairs = [(name, i) for name in sorted(datasets) for i in range(each)]
    return [pairs[i] for i in np.random.default_rng(seed).permutation(len(pairs))]


def disguise(task: HiddenTask, seed: int) -> tuple[HiddenTask, np.ndarray]:
    """Shuffle images and permute labels anew; also give stand-ins for the original labels that mean nothing elsewhere."""
    random = np.random.default_rng(seed)
    names = random.permutation(task.ways)
    support, query = random.permutation(len(task.support)), random.permutation(len(task.query))
    changed = HiddenTask(
        task.dataset,
        task.ways,
        task.shots,
        task.support[support],
        names[task.support_labels[support]],
        task.query[query],
        names[task.query_labels[query]],
    )
    return changed, random.permutation(task.ways)[changed.support_labels]


def meta_test(
    submission: Path,
    saved: Path,
    source: TaskSource,
    order: list[tuple[str, int]],
    plan: RunPlan,
    clock: Deadline,
    result: Result,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Run the tasks one after another, each in a process of its own, and score them."""
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
        without=plan.without,
    ) as session:
        paths = {"submission": session.place("/submission"), "saved": session.place("/saved")}
        for number, (dataset, i) in enumerate(order):
            drawn = source.draw(dataset, plan.seed("tasks", dataset), i)
            task, original = disguise(drawn, plan.seed("disguise", dataset, i))
            seed = plan.seed("learner", number) % (1 << 31)
            result.rows.append(run_task(session, paths, task, original, number, seed, plan, clock, result))
            if progress is not None:
                progress(number + 1, len(order))
    result.seconds["test"] = time.monotonic() - begin


def run_task(
    session: Session,
    paths: Mapping[str, str],
    task: HiddenTask,
    original: np.ndarray,
    number: int,
    seed: int,
    plan: RunPlan,
    clock: Deadline,
    result: Result,
) -> TaskRow:
    """Support first; queries once fit has returned; one array back."""
    times, marks = plan.times, [time.monotonic()]
    with session.run("task", seed, **paths) as job:
        try:
            job.expect(JobStage.LOADED, clock.until(times.load), "load")
            job.expect_silence("load")
            marks.append(time.monotonic())
            until = clock.until(times.fit)
            job.send(
                protocol.pack_support(task.support, task.support_labels, original, task.ways, task.shots), until, "fit"
            )
            job.expect(JobStage.FITTED, until, "fit")
            job.expect_silence("fit")
            marks.append(time.monotonic())
            until = clock.until(times.predict)
            job.send(protocol.pack_query(task.query), until, "predict")
            frame = job.expect(JobStage.ANSWERED, until, "predict")
            queries = len(task.query)
            raw = bytes(job.receive(protocol.answer_bytes(queries, task.ways), until, "predict"))
            job.expect_silence("predict")
            marks.append(time.monotonic())
            scores, code, problem = protocol.check_answer(raw, frame.kind, queries, task.ways)
            if scores is None:
                raise job.failure(code, "predict", problem)
        finally:
            job.finish()
            result.peak_bytes = max(result.peak_bytes, job.peak)
            if number == 0 or job.code:
                result.test_log = job.text()
    marks.append(time.monotonic())
    names = ("load", "fit", "predict", "end")
    result.task_seconds.append({name: marks[i + 1] - marks[i] for i, name in enumerate(names)})
    scored = accuracies(task.query_labels, scores.argmax(1), task.ways)
    return TaskRow(number, task.dataset, task.ways, task.shots, queries, **scored)


def write_training(
    datasets: Mapping[str, tuple[np.ndarray, np.ndarray]], folder: Path, valid: frozenset[str] = frozenset()
) -> Path:
    """Write training data (name -> uint8 images (n, h, w, c), labels from 0) where the sandbox can mount them.

    Data sets named in ``valid`` are for validation only; without them a submission's config.json may hold some out.
    """
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    entries = []
    for i, (name, (images, labels)) in enumerate(sorted(datasets.items())):
        np.save(partial / f"{i}-images.npy", np.ascontiguousarray(images, dtype=np.uint8), allow_pickle=False)
        np.save(partial / f"{i}-labels.npy", np.asarray(labels, dtype=np.int64), allow_pickle=False)
        entry = {"name": name, "images": f"{i}-images.npy", "labels": f"{i}-labels.npy", "valid": name in valid}
        entries.append(entry)
    (partial / "index.json").write_text(json.dumps({"datasets": entries}), encoding="utf-8")
    for path in [partial, *partial.iterdir()]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    partial.rename(folder)
    return folder


@dataclass(frozen=True)
class ArraySource:
    """Hidden tasks from arrays in memory: name -> (images, labels). Any-way any-shot, uniformly drawn."""

    sets: Mapping[str, tuple[np.ndarray, np.ndarray]]
    ways: tuple[int, int] = (2, 20)
    shots: tuple[int, int] = (1, 20)
    queries: int = 20

    def datasets(self) -> list[str]:
        """Names of the data sets."""
        return sorted(self.sets)

    def draw(self, dataset: str, seed: int, i: int) -> HiddenTask:
        """The i-th task of a data set."""
        images, labels = self.sets[dataset]
        random = np.random.default_rng([seed, i])
        classes, counts = np.unique(labels, return_counts=True)
        ways = int(random.integers(self.ways[0], min(self.ways[1], len(classes)) + 1))
        shots = int(random.integers(self.shots[0], min(self.shots[1], counts.min() - self.queries) + 1))
        chosen = random.permutation(classes)[:ways]
        rows = np.stack([random.permutation(np.flatnonzero(labels == c))[: shots + self.queries] for c in chosen])
        support, query = rows[:, :shots].reshape(-1), rows[:, shots:].reshape(-1)
        names = np.arange(ways)
        return HiddenTask(
            dataset,
            ways,
            shots,
            images[support],
            np.repeat(names, shots),
            images[query],
            np.repeat(names, self.queries),
        )
