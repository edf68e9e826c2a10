"""Telling others how a training goes: CSV, TensorBoard, Weights & Biases, MLflow, or a plug-in, through one callback.

A tracker only listens. What it is told are plain numbers, so that a training ends with the same weights with any
trackers or none; one that fails on the way is dropped with a warning instead of ending hours of training.
"""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar, Protocol

from handful import registry
from handful.errors import BadInput, require
from handful.options import parse_spec


class Tracker(Protocol):
    """Hears of one training: its options, its numbers step by step, its end.

    A class made with ``(folder, name, **options)``: a folder of its own to write to (not made yet) and the training's
    name; ``options`` are those of ``--track NAME:key=value``. Plug-ins register it under the entry-point group
    ``handful.trackers``.
    """

    def on_start(self, config: dict[str, Any]) -> None:
        """``method``, ``options``, ``part`` (the id of what it learns from) and ``version``."""

    def on_log(self, step: int, values: dict[str, float]) -> None:
        """``loss`` and ``rate`` of every step, ``valid`` where it was validated; steps count up over all stages."""

    def on_end(self, result: dict[str, Any]) -> None:
        """``finished``, ``steps`` and, where it validated, ``best``; ``reason`` if the training was cut short."""


class Tracking:
    """The trackers of one training, and what they have been told."""

    def __init__(self, trackers: Mapping[str, Tracker]):
        self.trackers = dict(trackers)
        self.steps = 0
        self.best: float | None = None
        self._started = False

    def start(self, config: dict[str, Any], rows: Sequence[Mapping[str, float]]) -> int:
        """A stage begins (again): trackers get the rows of before a kill too. The offset of the stage's steps."""
        if not self._started:
            self._started = True
            for tracker in self.trackers.values():
                tracker.on_start(config)
        offset = self.steps
        for row in rows:
            self.log(offset, row)
        return offset

    def log(self, offset: int, row: Mapping[str, float]) -> None:
        step = offset + int(row["step"])
        values = {k: float(v) for k, v in row.items() if k != "step" and v is not None}
        self.steps = step + 1
        if "valid" in values:
            self.best = max(values["valid"], self.best if self.best is not None else values["valid"])
        self._tell("on_log", step, values)

    def end(self, reason: str = "") -> None:
        if not self._started:
            return
        result: dict[str, Any] = {"finished": not reason, "steps": self.steps}
        result |= {"best": self.best} if self.best is not None else {}
        self._tell("on_end", result | ({"reason": reason} if reason else {}))

    def _tell(self, what: str, *arguments: Any) -> None:
        for name, tracker in list(self.trackers.items()):
            try:
                getattr(tracker, what)(*arguments)
            except Exception as error:  # anything a plug-in or a lost connection can raise
                del self.trackers[name]
                print(f"handful: the tracker {name} failed ({error}) and is left out from here on", file=sys.stderr)


_current: ContextVar[Tracking | None] = ContextVar("tracking", default=None)


def current() -> Tracking | None:
    """What the training that runs here reports to."""
    return _current.get()


@contextmanager
def track(*trackers: str | Tracker, folder: str | os.PathLike[str], name: str = "training") -> Iterator[Tracking]:
    """Track every training of the block.

    Parameters
    ----------
    trackers
        Names (``csv``, ``tensorboard``, ``wandb:project=birds``, ``mlflow``, a plug-in's), or objects with the three
        callbacks of `Tracker`.
    folder
        Where trackers that write files put them.
    name
        What to call the training where there are many.
    """
    made = {}
    for item in trackers:
        key = item if isinstance(item, str) else type(item).__name__
        if key in made:
            raise BadInput(f"the tracker {key} is named twice; name it once")
        made[key] = make_tracker(item, Path(folder), name) if isinstance(item, str) else item
    tracking = Tracking(made)
    token = _current.set(tracking)
    try:
        yield tracking
    except BaseException as error:
        tracking.end(str(error) or type(error).__name__)
        raise
    else:
        tracking.end()
    finally:
        _current.reset(token)


def make_tracker(spec: str, folder: Path, name: str) -> Tracker:
    """A registered tracker from ``name:key=value``."""
    kind, options = parse_spec(spec)
    return registry.make("trackers", kind, options, folder, name)


class CsvTracker:
    """``log.csv``: one line per step, flushed as it is written; columns step, loss, rate, valid."""

    columns: ClassVar[tuple[str, ...]] = ("step", "loss", "rate", "valid")

    def __init__(self, folder: Path, name: str):
        self.path = folder / "log.csv"

    def on_start(self, config: dict[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.stream = open(self.path, "w", encoding="utf-8", newline="")
        self.writer = csv.writer(self.stream, lineterminator="\n")
        self.writer.writerow(self.columns)

    def on_log(self, step: int, values: dict[str, float]) -> None:
        self.writer.writerow([step, *(values.get(c, "") for c in self.columns[1:])])
        self.stream.flush()

    def on_end(self, result: dict[str, Any]) -> None:
        self.stream.close()


class TensorBoardTracker:
    """Event files for ``tensorboard --logdir FOLDER``; needs the extra ``handful[track]``."""

    def __init__(self, folder: Path, name: str):
        require("tensorboard", "track")
        self.folder = folder

    def on_start(self, config: dict[str, Any]) -> None:
        import json

        from torch.utils.tensorboard import SummaryWriter

        # A training that goes on after a kill is told whole, so what an earlier file holds is out of date.
        self.writer = SummaryWriter(str(self.folder), purge_step=0)
        self.writer.add_text("config", f"```json\n{json.dumps(config, indent=1, default=str)}\n```")

    def on_log(self, step: int, values: dict[str, float]) -> None:
        for key, value in values.items():
            self.writer.add_scalar(key, value, step)

    def on_end(self, result: dict[str, Any]) -> None:
        self.writer.close()


class WandbTracker:
    """Weights & Biases; needs the extra ``handful[wandb]``. ``WANDB_MODE=offline`` keeps all on this machine."""

    def __init__(self, folder: Path, name: str, project: str = "handful", entity: str = ""):
        self.wandb = require("wandb", "wandb")
        self.folder, self.name, self.project, self.entity = folder, name, project, entity

    def on_start(self, config: dict[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.run = self.wandb.init(
            project=self.project, entity=self.entity or None, name=self.name, config=config, dir=str(self.folder)
        )

    def on_log(self, step: int, values: dict[str, float]) -> None:
        self.run.log(values, step=step)

    def on_end(self, result: dict[str, Any]) -> None:
        self.run.summary.update(result)
        self.run.finish(exit_code=0 if result["finished"] else 1)


class MlflowTracker:
    """MLflow; needs the extra ``handful[mlflow]``. Runs go where ``MLFLOW_TRACKING_URI`` points."""

    def __init__(self, folder: Path, name: str, experiment: str = "handful"):
        self.mlflow = require("mlflow", "mlflow")
        self.name, self.experiment = name, experiment

    def on_start(self, config: dict[str, Any]) -> None:
        self.mlflow.set_experiment(self.experiment)
        self.mlflow.start_run(run_name=self.name)
        parameters = list(_flat(config).items())
        for start in range(0, len(parameters), 100):  # the most that one call may hold
            self.mlflow.log_params(dict(parameters[start : start + 100]))

    def on_log(self, step: int, values: dict[str, float]) -> None:
        self.mlflow.log_metrics(values, step=step)

    def on_end(self, result: dict[str, Any]) -> None:
        self.mlflow.set_tag("finished", str(result["finished"]))
        self.mlflow.end_run("FINISHED" if result["finished"] else "FAILED")


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            out |= _flat(value, f"{prefix}{key}.")
        else:
            out[f"{prefix}{key}"] = value
    return out
