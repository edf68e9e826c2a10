"""Small submissions in the starting kit's layout, small data, and sandboxes that tests share."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from handful.challenge.evaluate import run_submission
from handful.challenge.failures import Failure
from handful.challenge.hidden import rules_of
from handful.challenge.learner import SandboxLearner
from handful.challenge.plan import Deadline, Result, RunPlan, Times
from handful.challenge.sandbox import Limits, Session
from handful.challenge.sources import write_training
from handful.challenge.walls import detect, missing_reason
from handful.data.collection import Card, Collection, as_table
from handful.metrics.accuracy import Accuracy
from handful.tasks.episode import Task
from handful.tasks.rule import Rule

needs_walls = pytest.mark.skipif(missing_reason() is not None, reason=f"needs bubblewrap: {missing_reason()}")

HEAD = """
import os, sys, time, torch, numpy as np
from cdmetadl.api.api import MetaLearner, Learner, Predictor
"""

LEARNER = """
class MyMetaLearner(MetaLearner):
    def meta_fit(self, meta_train_generator, meta_valid_generator):
        return MyLearner()

class MyPredictor(Predictor):
    def __init__(self, prototypes):
        self.prototypes = prototypes
    def predict(self, X):
        return -torch.cdist(X.flatten(1), self.prototypes).numpy()

class MyLearner(Learner):
    def save(self, path):
        open(os.path.join(path, "weights.bin"), "wb").write(b"none")
    def load(self, path):
        pass
    def fit(self, support_set):
        X, y, _, ways, _ = support_set
        X = X.flatten(1)
        return MyPredictor(torch.stack([X[y == c].mean(0) for c in range(ways)]))
"""


def source(top: str = "", **methods: str) -> str:
    """A nearest-mean submission with some methods replaced: ``fit='...'`` is the body of MyLearner.fit, and so on."""
    homes = {
        "fit": ("MyLearner", "self, support_set"),
        "load": ("MyLearner", "self, path"),
        "save": ("MyLearner", "self, path"),
    }
    homes |= {"predict": ("MyPredictor", "self, X"), "meta_fit": ("MyMetaLearner", "self, train, valid")}
    text = HEAD + textwrap.dedent(top) + LEARNER
    for name, body in methods.items():
        home, arguments = homes[name]
        text += f"\ndef _new({arguments}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
        text += f"_old_{name} = {home}.{name}\n{home}.{name} = _new\n"
    return text


def blobs(
    seed: int, classes: int = 10, each: int = 30, size: int = 16, noise: int = 40
) -> tuple[np.ndarray, np.ndarray]:
    """Images that are a class's own pattern plus noise."""
    random = np.random.default_rng(seed)
    centre = random.integers(40, 200, (classes, 1, size, size, 3))
    images = np.clip(centre + random.integers(-noise, noise + 1, (classes, each, size, size, 3)), 0, 255)
    return images.astype(np.uint8).reshape(-1, size, size, 3), np.repeat(np.arange(classes), each)


@pytest.fixture(scope="session")
def sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {"one": blobs(1), "two": blobs(2), "three": blobs(3)}


@pytest.fixture(scope="session")
def train(sets, tmp_path_factory) -> Path:
    return write_training(sets, tmp_path_factory.mktemp("data") / "train")


def tasks_of(sets: dict[str, tuple[np.ndarray, np.ndarray]], rule: str = "any-way", **options) -> dict[str, Rule]:
    """A rule for each data set of images and labels in memory."""
    names = [name for name, (_, labels) in sets.items() for _ in labels]
    labels = [f"c{label:03d}" for _, labels in sets.values() for label in labels]
    images = np.concatenate([images for images, _ in sets.values()])
    card = Card("toy", "images", images.shape[1:], ("category",))
    return rules_of(Collection(card, as_table({"dataset": names, "category": labels}), images).whole, rule, **options)


def row(
    value: float, dataset: str = "a", ways: int = 2, shots: int = 1, task: int = 0, repeat: int = 0
) -> dict[str, object]:
    """A line of a run's table."""
    scores = dict.fromkeys(("accuracy", "balanced", "normalised"), value)
    return {"repeat": repeat, "task": task, "ways": ways, "shots": shots, "queries": 8, "dataset": dataset, **scores}


@pytest.fixture(scope="session")
def hidden(sets) -> dict[str, Rule]:
    return tasks_of(sets, ways=(2, 8), shots=(1, 5), queries=5)


@pytest.fixture(scope="session")
def task(sets) -> Task:
    rule = tasks_of(sets, ways=5, shots=3, queries=4)["one"]
    return rule.read(rule.draw(7, 0))


SMALL = Limits(
    memory_bytes=900 << 20,
    tmp_bytes=32 << 20,
    shm_bytes=8 << 20,
    inodes=500,
    file_bytes=24 << 20,
    processes=24,
    open_files=128,
    saved_files=5,
    saved_bytes=1 << 20,
    output_bytes=4 << 20,
    tail_bytes=20_000,
)
QUICK = Times(load=120, train=120, save=120, fit=120, predict=120, total=900)


class Arena:
    """One sandbox in which many submissions are tried, one job each."""

    def __init__(self, folder: Path, train: Path, task: Task) -> None:
        self.folder, self.task = folder, task
        self.submissions = folder / "submissions"
        self.submissions.mkdir()
        self.saved = folder / "saved"
        self.saved.mkdir()
        # Reading a file could leave its time of access as a mark for the next task.
        (self.saved / "old").write_text("x")
        os.utime(self.saved / "old", (1, 2))
        mounts = {"/submissions": self.submissions, "/saved": self.saved, "/train": train}
        self.session = Session(detect(), mounts, SMALL).__enter__()
        self.count = 0

    def write(self, text: str) -> str:
        self.count += 1
        place = self.submissions / str(self.count)
        place.mkdir()
        (place / "model.py").write_text(text)
        return f"/submissions/{self.count}"

    def attempt(self, text: str, times: Times = QUICK, repeat: int = 1) -> tuple[Result, Failure | None]:
        """Run meta-test tasks with a submission; give the result and its failure."""
        inside, result = self.write(text), Result()
        plan = RunPlan(tasks_per_dataset=1, secret=b"secret", times=times, limits=SMALL)
        paths = {"submission": inside, "saved": "/saved"}
        logs, rows = [], []
        for number in range(repeat):
            learner = SandboxLearner(self.session, paths, plan, Deadline(900), result)
            try:
                with learner:
                    scores = learner.fit(replace(self.task.support, seed=number)).predict(self.task.query)
                rows.append(Accuracy().row(self.task.episode, scores))
                result.frame = pl.DataFrame(rows)
            except Failure as failure:
                result.failure = failure
                result.test_log = failure.log
                return result, failure
            logs.append(result.test_log)
        result.test_log = "\n".join(logs)
        return result, None

    def training(self, text: str, times: Times = QUICK) -> tuple[Path, Result, Failure | None]:
        """Run meta-training with a submission; give the folder of saved files, the result and the failure."""
        from handful.challenge.evaluate import run_training

        inside, result = self.write(text), Result()
        saved = self.folder / f"saved-{self.count}"
        plan = RunPlan(tasks_per_dataset=1, secret=b"secret", times=times, limits=SMALL)
        try:
            run_training(self.session, {"submission": inside, "train": "/train"}, saved, plan, Deadline(900), result)
        except Failure as failure:
            return saved, result, failure
        return saved, result, None


@pytest.fixture(scope="module")
def arena(tmp_path_factory, train, task) -> Iterator[Arena]:
    place = Arena(tmp_path_factory.mktemp("arena"), train, task)
    yield place
    place.session.close()


@pytest.fixture
def run(tmp_path, train, hidden) -> Callable[..., Result]:
    """Run a submission given as text through the whole path."""

    def go(text: str, files: dict[str, str] | None = None, train: Path = train, **options) -> Result:
        folder = tmp_path / "submission"
        folder.mkdir(exist_ok=True)
        (folder / "model.py").write_text(text)
        for name, content in (files or {}).items():
            (folder / name).write_text(content)
        plan = RunPlan(
            **{"tasks_per_dataset": 2, "secret": b"s", "times": QUICK, "limits": SMALL, "warm": (), **options}
        )
        return run_submission(folder, train, hidden, plan, tmp_path / "work")

    return go
