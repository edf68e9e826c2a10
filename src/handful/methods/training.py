"""The one runner of training: a method's stages, on tasks or batches; a killed training goes on exactly from its checkpoint."""

from __future__ import annotations

import copy
import dataclasses
import io
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from handful._version import __version__
from handful.clock import timed
from handful.errors import BadInput
from handful.files import parse_json, write_atomically
from handful.frames import write_frame
from handful.methods import distributed, tracking
from handful.methods.answering import answers
from handful.methods.augment import augment
from handful.methods.batch import PADDING, pad
from handful.methods.schedule import Schedule
from handful.methods.stages import Loss, Stage, only
from handful.nets.compute import within_memory
from handful.progress import bar, note
from handful.tasks import random
from handful.tasks.episode import Task
from handful.tasks.rule import Rule

# Where steps are slow, what a kill costs is bounded by time: from any step a training goes on to the same bits.
CHECKPOINT_SECONDS = 300


class Seen:
    """What this process has been trained on so far, for the speed beside the progress bar."""

    images = 0
    tasks = 0

    def since(self, images: int, tasks: int, seconds: float) -> str:
        rates = [(self.images - images, "images/s"), (self.tasks - tasks, "tasks/s")]
        return ", ".join(f"{count / max(seconds, 1e-9):,.3g} {unit}" for count, unit in rates if count)


seen = Seen()


def walk(stages: list[Stage], learner: Any, train: Rule, valid: Rule | None, keep: Path | None) -> None:
    """Train a learner stage by stage."""
    if distributed.announced() and stages and all(stage.work is not None for stage in stages):
        raise BadInput(
            f"{learner.method.name} learns by a computation of its own, which several processes cannot share; start it without "
            "torchrun"
        )
    if any(stage.on == "tasks" for stage in stages):
        train.check()
    for stage in stages:
        if stage.learns:
            only(learner.modules, stage.learns)
        if stage.work is not None:
            stage.work(learner, train, valid)
            continue
        assert stage.schedule is not None, "a stage of steps has a schedule"
        if stage.loss is not None:
            loss = stage.loss(learner, train)
        else:
            loss = (loss_on_batches if stage.on == "batches" else loss_on_tasks)(learner, train, stage.schedule)
        folder = keep / stage.folder if keep is not None else None
        with within_memory(smaller(stage, learner.method)):
            run(stage.schedule, learner, loss, train, valid if stage.validates else None, folder)


def smaller(stage: Stage, method: Any) -> str:
    """What to try where a stage needs too much memory: half as much at a time, twice as often, so that a step sees the same."""
    schedule = stage.schedule
    assert schedule is not None
    own = (f.name for f in dataclasses.fields(method) if getattr(method, f.name) == schedule)
    name, what = next(own, "schedule"), "tasks" if stage.on == "tasks" else "batch"
    if getattr(schedule, what) < 2:
        return f"a step has one of its {what} at a time already: choose a smaller net, smaller images, or smaller tasks"
    half, twice = getattr(schedule, what) // 2, 2 * schedule.accumulate
    return f"train on less at a time: -s {name}.{what}={half} -s {name}.accumulate={twice}"


def loss_on_tasks(learner: Any, train: Rule, schedule: Schedule) -> Loss:
    drawn = Drawn(train, schedule)

    def loss(step: int) -> Tensor:
        return task_batch_loss(learner, drawn.tasks(step), schedule.augment, step_generator(schedule, step))

    return loss


def step_generator(schedule: Schedule, step: int) -> torch.Generator:
    """The randomness of a numbered micro-batch's augmentation."""
    return torch.Generator().manual_seed(random.subseed(schedule.seed, "augment", step))


class Drawn:
    """The training tasks of each step, drawn in blocks."""

    def __init__(self, rule: Rule, schedule: Schedule):
        self.rule, self.schedule = rule, schedule
        self._block: dict[int, Any] = {}
        self._start = -1

    def tasks(self, step: int) -> list[Task]:
        """Those of one micro-batch; a process among several gets its piece of them."""
        each = distributed.piece_of(self.schedule.tasks, distributed.cut(self.schedule), "schedule.tasks")
        out = []
        with timed("read"):
            for number in range(step * each, (step + 1) * each):
                start = number // 64 * 64
                if start != self._start:
                    seed = random.subseed(self.schedule.seed, "train")
                    self._block = {e.number: e for e in self.rule.draw_block(seed, start, start + 64)}
                    self._start = start
                out.append(self.rule.read(self._block[number]))
        seen.tasks += len(out)
        seen.images += sum(len(t.support) + len(t.query) for t in out)
        return out


def task_batch_loss(learner: Any, tasks: list[Task], kinds: tuple[str, ...], generator: torch.Generator) -> Tensor:
    """Embed support and query of all tasks in one forward pass, then the method's loss on the padded batch."""
    device, backbone, method = learner.compute.device, learner.backbone, learner.method
    parts = [x for t in tasks for x in (t.support.images, t.query.images) if x is not None]
    images = torch.from_numpy(np.concatenate(parts)).to(device)
    images = augment(images, kinds, generator)
    with learner.compute.autocast():
        x = backbone.normalise(images)
        features = (backbone.maps(x) if method.maps else backbone(x)).float()
    cut, at = [], 0
    for t in tasks:
        a, b = len(t.support), len(t.query)
        cut.append((features[at : at + a], t.support.labels, features[at + a : at + a + b]))
        at += a + b
    batch = pad(
        cut,
        [t.support.shape for t in tasks],
        [t.support.seed for t in tasks],
        [t.support.sizes for t in tasks],
        [t.support.descriptions for t in tasks],
        [t.support.texts for t in tasks],
    )
    labels = np.full((len(tasks), batch.q.shape[1]), PADDING, dtype=np.int64)
    for i, t in enumerate(tasks):
        labels[i, : len(t.labels)] = t.labels
    return method.task_loss(learner.modules, batch, torch.as_tensor(labels, device=device))


def loss_on_batches(learner: Any, train: Rule, schedule: Schedule) -> Loss:
    seed = random.subseed(schedule.seed, "train")
    source: dict[str, Any] = {"batch": None, "rows": None}

    def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
        """Images and labels of one micro-batch; a process among several gets its piece of them."""
        by = distributed.cut(schedule)
        number, piece = step // by, step % by
        if source["batch"] is None or not 0 <= number - source["batch"] <= 64:
            source["rows"], source["batch"] = train.batch_rows(seed, schedule.batch, number), number - 1
        while source["batch"] < number:
            source["drawn"], source["batch"] = next(source["rows"]), source["batch"] + 1
        rows, labels = source["drawn"]
        each = distributed.piece_of(len(rows), by, "schedule.batch")
        mine = slice(piece * each, (piece + 1) * each)
        seen.images += each
        return train.part.collection.read(rows[mine]), labels[mine]

    def loss(step: int) -> Tensor:
        with timed("read"):
            images, labels = batch(step)
        device, generator = learner.compute.device, step_generator(schedule, step)
        x = augment(torch.from_numpy(np.array(images)).to(device), schedule.augment, generator)
        with learner.compute.autocast():
            answers = torch.as_tensor(labels, device=device)
            return learner.method.batch_loss(learner.modules, learner.backbone.normalise(x), answers)

    return loss


def run(schedule: Schedule, learner: Any, loss: Loss, train: Rule, valid: Rule | None, keep: Path | None) -> None:
    """The training loop of every method: steps, rate, validation, selection, checkpoints, log."""
    m = learner.modules
    parameters = [p for p in m.parameters() if p.requires_grad]
    if not parameters:
        return
    optimiser = schedule.optimiser_for(parameters)
    world = distributed.join(learner.compute.device)
    progress = _Progress(schedule, learner, train, keep, world.rank == 0)
    first = progress.resume(optimiser)
    if world.tell(first):
        first, state = world.tell((first, optimiser.state_dict()))
        optimiser.load_state_dict(state)
    if 0 < first < schedule.steps and world.rank == 0:
        note(f"training {learner.method.name}: going on at step {first:,} of {schedule.steps:,}")
    progress.start_telling()
    parts = schedule.accumulate * distributed.cut(schedule)
    mine = range(world.rank, parts, world.size)
    backward = distributed.Backward(m, loss, learner.compute, world)
    progress.resume_scaler(backward.scaler)
    title = f"training {learner.method.name}"
    with (
        learner.compute.here() as device,
        distributed.compiled(learner),
        bar(title, schedule.steps, first) as advance,
    ):
        began, images, tasks = time.monotonic(), seen.images, seen.tasks
        for step in range(first, schedule.steps):
            m.train()
            for group in optimiser.param_groups:
                group["lr"] = schedule.rate_at(step)
            optimiser.zero_grad(set_to_none=True)
            total = 0.0
            for part in mine:
                number = step * parts + part
                with torch.random.fork_rng(devices=[]), timed("learn"):
                    torch.manual_seed(random.subseed(schedule.seed, "dropout", number))
                    total += backward(number, parts / world.size, part == mine[-1])
            total = world.sum(total, device) / world.size
            if not np.isfinite(total):
                raise BadInput(f"the loss of {learner.method.name} is {total} at step {step}; lower schedule.rate")
            with timed("update"):
                backward.update(optimiser, schedule.clip, parameters)
            progress.log(step, total)
            every = schedule.validate_every
            if valid is not None and every and ((step + 1) % every == 0 or step + 1 == schedule.steps):
                m.eval()
                with timed("validate"):
                    progress.validated(step, validate(learner, valid, schedule) if progress.first else -np.inf)
            progress.tell()
            if (step + 1) % schedule.checkpoint_every == 0 or progress.waited():
                with timed("keep"):
                    progress.save(step + 1, optimiser)
            advance(1, f"loss {total:.3f}, {seen.since(images, tasks, time.monotonic() - began)}")
        progress.finish(optimiser)
    world.equalise(m)
    m.eval()


def validate(learner: Any, valid: Rule, schedule: Schedule) -> float:
    """What selection maximises: the learner's own `selection_score` if it has one, else mean accuracy on the first tasks."""
    own = getattr(learner.method, "selection_score", None)
    if own is not None:
        return float(own(learner, valid, schedule))
    seed = random.subseed(schedule.seed, "valid")
    return float(np.mean([a.accuracy for a in answers(learner, valid, schedule.validate_tasks, seed)]))


class _Progress:
    """Checkpoint, log and best state of one training."""

    def __init__(self, schedule: Schedule, learner: Any, train: Rule, keep: Path | None, first: bool = True):
        self.schedule, self.learner, self.first = schedule, learner, first
        self.keep = keep if first else None  # of several processes only the first writes and tells
        self.scaler: dict[str, Any] = {}
        self.best, self.best_state = -np.inf, None
        self.rows: list[dict[str, float]] = []
        self.saved = time.monotonic()
        self.identity = {"method": learner.method.name, "options": learner.method.options(), "part": train.part.id}
        self.tracking, self.offset = tracking.current() if first else None, 0

    def resume(self, optimiser: torch.optim.Optimizer) -> int:
        if self.keep is None or not (self.keep / "checkpoint.pt").is_file():
            return 0
        file = self.keep / "checkpoint.pt"
        try:
            saved = torch.load(file, map_location=self.learner.compute.device, weights_only=True)
            if parse_json(saved["identity"]) != json.loads(json.dumps(self.identity)):
                raise BadInput(f"{self.keep} holds another training's checkpoint; name another folder")
            self.learner.modules.load_state_dict(saved["modules"])
            optimiser.load_state_dict(saved["optimiser"])
            self.best, self.best_state = float(saved["best"]), saved["best_state"] or None
            shapes = {k: v.shape for k, v in self.learner.modules.state_dict().items()}
            if self.best_state and {k: v.shape for k, v in self.best_state.items()} != shapes:
                raise ValueError("its best state is of other modules")
            self.rows, self.scaler = parse_json(saved["rows"]), saved.get("scaler", {})
            return int(saved["step"])
        except BadInput:
            raise
        except Exception as error:  # a damaged file fails anywhere inside the readers, with whatever error is near
            raise BadInput(f"{file} is damaged; remove it to train from the start") from error

    def resume_scaler(self, scaler: Any) -> None:
        """Go on with the loss scale of the checkpoint, and keep this one's in the next."""
        if self.scaler:
            scaler.load_state_dict(self.scaler)
        self.scaler_now = scaler.state_dict

    def save(self, step: int, optimiser: torch.optim.Optimizer) -> None:
        self.saved = time.monotonic()
        if self.keep is None:
            return
        state = {
            "identity": json.dumps(self.identity),
            "step": step,
            "modules": self.learner.modules.state_dict(),
            "optimiser": optimiser.state_dict(),
            "best": float(self.best),
            "best_state": self.best_state or {},
            "rows": json.dumps(self.rows),
            "scaler": self.scaler_now(),
        }
        # By way of memory: torch's own writer does not say that a disk is full.
        data = io.BytesIO()
        torch.save(state, data)
        write_atomically(self.keep / "checkpoint.pt", lambda t: t.write_bytes(data.getbuffer()))

    def waited(self) -> bool:
        """Whether the last checkpoint is long ago."""
        return time.monotonic() - self.saved >= CHECKPOINT_SECONDS

    def start_telling(self) -> None:
        if self.tracking:
            self.offset = self.tracking.start({**self.identity, "version": __version__}, self.rows)

    def tell(self) -> None:
        if self.tracking:
            self.tracking.log(self.offset, self.rows[-1])

    def log(self, step: int, loss: float) -> None:
        self.rows.append({"step": step, "loss": loss, "rate": self.schedule.rate_at(step)})

    def validated(self, step: int, score: float) -> None:
        self.rows[-1]["valid"] = score
        if self.schedule.select == "best" and score > self.best:
            self.best = score
            self.best_state = copy.deepcopy(self.learner.modules.state_dict())

    def finish(self, optimiser: torch.optim.Optimizer) -> None:
        self.save(self.schedule.steps, optimiser)
        if self.schedule.select == "best" and self.best_state is not None:
            self.learner.modules.load_state_dict(self.best_state)
        if self.keep is not None:
            import polars as pl

            frame = pl.DataFrame(
                self.rows, schema={"step": pl.Int64, "loss": pl.Float64, "rate": pl.Float64, "valid": pl.Float64}
            )
            write_atomically(self.keep / "log.csv", lambda t: write_frame(frame, t, "csv"))
