"""What the wall costs a task: the evaluator's time for it less the submission's own (import, load, fit, predict).

    python benchmarks/challenge_overhead.py [--tasks 40] [--size 128]

A prototype learner on mean colours takes the published challenge's tasks (2-20 ways, 1-20 shots, 20 queries per class) on random
images and prints its own time from inside; everything else is fork, namespaces, seal, sending images, turning them into
tensors, ending the process. Turning bytes into tensors is no matter of the wall (any evaluator does it); it is measured by
itself and told apart. Needs bubblewrap; as root the strong form is measured.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from machine import quiet, verdict

from handful.challenge.evaluate import run_submission
from handful.challenge.hidden import rules_of
from handful.challenge.job import SandboxJob
from handful.challenge.kit.cdmetadl.ingestion.data_generator import to_tensor
from handful.challenge.plan import RunPlan
from handful.challenge.sources import write_training
from handful.challenge.walls import detect
from handful.data.collection import Card, Collection, as_table

SUBMISSION = """
import time
began = time.perf_counter()
import torch
from cdmetadl.api.api import MetaLearner, Learner, Predictor

def own(since):
    print("own=%.6f" % (time.perf_counter() - since), flush=True)

class MyMetaLearner(MetaLearner):
    def meta_fit(self, train, valid):
        return MyLearner()

class Prototypes(Predictor):
    def __init__(self, means):
        self.means = means
    def predict(self, X):
        since = time.perf_counter()
        scores = -torch.cdist(X.mean((2, 3)), self.means).numpy()
        own(since)
        return scores

class MyLearner(Learner):
    def save(self, path):
        open(path + "/nothing", "w").write("x")
    def load(self, path):
        own(began)
    def fit(self, support):
        since = time.perf_counter()
        X, y, _, ways, _ = support
        colours = X.mean((2, 3))
        means = torch.stack([colours[y == c].mean(0) for c in range(ways)])
        own(since)
        return Prototypes(means)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--size", type=int, default=128)
    options = parser.parse_args()
    judged = quiet()
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (800, options.size, options.size, 3), dtype=np.uint8)
    sets = {"noise": (images, np.repeat(np.arange(20), 40))}
    own: list[float] = []
    finish = SandboxJob.finish

    def reading(job: SandboxJob) -> None:
        finish(job)
        own.append(sum(float(x) for x in re.findall(r"own=([\d.]+)", job.text())))

    SandboxJob.finish = reading  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        (root / "submission").mkdir()
        (root / "submission" / "model.py").write_text(SUBMISSION)
        table = as_table({"dataset": ["noise"] * 800, "category": [f"c{c:02d}" for c in np.repeat(np.arange(20), 40)]})
        collection = Collection(Card("noise", "images", images.shape[1:], ("category",)), table, images)
        rules = rules_of(collection.whole, "any-way", ways=(2, 20), shots=(1, 20), queries=20)
        plan = RunPlan(tasks_per_dataset=options.tasks, secret=b"overhead")
        result = run_submission(root / "submission", write_training(sets, root / "train"), rules, plan, root)
    if result.failure is not None:
        raise SystemExit(str(result.failure))
    assert result.frame is not None
    n = len(result.frame)
    whole = np.asarray([sum(t.values()) for t in result.task_seconds])
    mine = np.asarray(own[-n:])
    over = 1000 * (whole - mine)
    sent = (result.frame["ways"] * result.frame["shots"] + result.frame["queries"]).to_numpy()
    clocks = []
    for _ in range(4):
        start = time.perf_counter()
        to_tensor(images[:200])
        clocks.append(time.perf_counter() - start)
    tensors = 1000 * min(clocks) / 200 * sent
    few, many = sent <= np.quantile(sent, 0.25), sent >= np.quantile(sent, 0.75)
    print(f"form {detect()}, {n} tasks, {options.size} pixels, {np.median(sent):.0f} images per task at the median")
    print(f"smallest quarter ({sent[few].mean():.0f} images) {np.median(over[few]):.0f} ms, ", end="")
    print(f"largest quarter ({sent[many].mean():.0f} images) {np.median(over[many]):.0f} ms")
    for part in ("load", "fit", "predict", "end"):
        print(
            f"  {part}, the learner's share included: {1000 * np.median([t[part] for t in result.task_seconds]):.1f} ms"
        )
    print(f"overhead a task, median: {np.median(over):.0f} ms, {np.median(tensors):.0f} ms of it making tensors")
    verdict("the wall a task, tensors included, median ms", float(np.median(over)), 40, judged, at_least=False)


if __name__ == "__main__":
    main()
