"""Submitted code as a learner of the library: ``fit`` and ``predict`` cross the wall, and nothing else does.

This side holds labels of queries, clock and scores in whoever calls it; the other side gets the support, then the
queries, and answers with one array of the size that was asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from handful import registry
from handful.challenge import protocol
from handful.challenge.archive import clean_name
from handful.challenge.job import SandboxJob
from handful.challenge.plan import Deadline, Result, RunPlan
from handful.challenge.protocol import JobStage
from handful.challenge.sandbox import Session
from handful.errors import HandfulError
from handful.files import WRONG, read_json
from handful.methods.contract import Learner, Method, Predictor
from handful.nets.compute import Compute
from handful.runs.filled import seen_by
from handful.tasks.episode import Query, Support

MARKS = ("load", "fit", "predict", "end")


@dataclass(frozen=True, kw_only=True)
class SubmittedCode(Method):
    """Whatever was handed in. It gets all queries of a task at once, so that it may be transductive without saying so."""

    name: ClassVar[str] = "submission"


class SandboxLearner(Learner):
    """Each task is learned in a process of its own, within a session's walls.

    ``paths`` are where the process finds the submission and its saved files. Use as a context manager: whatever
    happens, the last task's process is ended.
    """

    def __init__(
        self,
        session: Session,
        paths: Mapping[str, str],
        plan: RunPlan,
        clock: Deadline,
        result: Result,
        progress: Callable[[int], None] = lambda done: None,
    ) -> None:
        self.method, self.compute = SubmittedCode(), Compute()
        self.session, self.paths, self.plan, self.clock = session, paths, plan, clock
        self.result, self.progress, self.done = result, progress, 0
        self.answering: SandboxPredictor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def fit(self, support: Support) -> SandboxPredictor:
        """Start a process, let it load and learn; its queries it sees only once it says that it has learned."""
        self.end()
        seed, began = support.seed % (1 << 31), time.monotonic()
        self.answering = SandboxPredictor(self, self.session.run("task", seed, **self.paths), began)
        self.answering.learn(support)
        return self.answering

    def end(self) -> None:
        """End the running task's process, if there is one."""
        if self.answering is not None:
            self.answering.end()
            self.answering = None


class SandboxPredictor(Predictor):
    """One task's process, from its start to its answer."""

    def __init__(self, learner: SandboxLearner, job: SandboxJob, began: float) -> None:
        self.learner, self.job, self.ways = learner, job, 0
        self.marks = [began]

    def learn(self, support: Support) -> None:
        """Load, then fit, each against its own limit."""
        job, clock, times = self.job, self.learner.clock, self.learner.plan.times
        assert support.images is not None and support.labels is not None
        self.ways = support.n_classes
        original = stand_ins(support, self.learner.plan)
        shots = int(np.bincount(support.labels, minlength=1)[np.unique(support.labels)].min())
        try:
            job.expect(JobStage.LOADED, clock.until(times.load), "load")
            job.expect_silence("load")
            self.marks.append(time.monotonic())
            until = clock.until(times.fit)
            job.send(protocol.pack_support(support.images, support.labels, original, self.ways, shots), until, "fit")
            job.expect(JobStage.FITTED, until, "fit")
            job.expect_silence("fit")
            self.marks.append(time.monotonic())
        except BaseException:
            self.learner.end()
            raise

    def predict(self, query: Query) -> np.ndarray:
        """Send the queries, take one array of the size that they ask for, and end the process."""
        job, learner = self.job, self.learner
        try:
            until = learner.clock.until(learner.plan.times.predict)
            job.send(protocol.pack_query(query.images), until, "predict")
            frame = job.expect(JobStage.ANSWERED, until, "predict")
            raw = bytes(job.receive(protocol.answer_bytes(len(query), self.ways), until, "predict"))
            job.expect_silence("predict")
            self.marks.append(time.monotonic())
            scores, code, problem = protocol.check_answer(raw, frame.kind, len(query), self.ways)
            if scores is None:
                raise job.failure(code, "predict", problem)
        finally:
            learner.end()
        learner.done += 1
        learner.progress(learner.done)
        return scores

    def end(self) -> None:
        """End the process; keep its times, its most memory, and its log if it is the first or went wrong."""
        result, first = self.learner.result, not self.learner.done
        self.job.finish()
        result.peak_bytes = max(result.peak_bytes, self.job.peak)
        if first or self.job.code:
            result.test_log = self.job.text()
        self.marks.append(time.monotonic())
        if len(self.marks) == len(MARKS) + 1:
            result.task_seconds.append({name: self.marks[i + 1] - self.marks[i] for i, name in enumerate(MARKS)})


def stand_ins(support: Support, plan: RunPlan) -> np.ndarray:
    """What the kit calls original labels: the task's own, renamed so that they identify no class across tasks."""
    random = np.random.default_rng(plan.seed("stand-ins", support.seed))
    return random.permutation(support.n_classes)[support.labels]


def facts_of(submission: Path) -> dict[str, Any]:
    """What a submission is known or says to be: method, net, what its net was trained on, whether it is transductive.

    A learner of the library that ``challenge pack`` packed is known; of other code, what its config.json declares.
    Both files are a stranger's: what is not plain text of a known kind is left out.
    """
    told: dict[str, Any] = {"method": "", "net": "", "pretrained": "", "transductive": False}
    packed, declared = _object(submission / "method.json"), _object(submission / "config.json")
    if isinstance(packed.get("method"), str) and packed["method"] in registry.table("methods"):
        options = packed.get("options")
        net = options.get("net") if isinstance(options, dict) else ""
        method = registry.get("methods", packed["method"])
        return {
            "method": packed["method"],
            "net": _word(net),
            "pretrained": seen_by(net if isinstance(net, str) else ""),
            "transductive": bool(method.transductive),
        }
    told |= {key: _word(declared.get(key)) for key in ("method", "net", "pretrained")}
    return {**told, "transductive": declared.get("transductive") is True}


def _object(path: Path) -> dict[str, Any]:
    try:
        found = read_json(path) if path.is_file() and path.stat().st_size < 1 << 20 else {}
    except (OSError, HandfulError, *WRONG):
        return {}
    return found if isinstance(found, dict) else {}


def _word(value: Any) -> str:
    return clean_name(value, 80) if isinstance(value, str) else ""
