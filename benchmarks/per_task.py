"""Sampling and evaluating ProtoNet on 3,000 tasks, against a task sampler with one forward pass a task.

    python benchmarks/per_task.py [--tasks 3000] [--images 12000] [--peer-tasks 150]

The peer is easyfsl's way, re-created from its documentation (the package needs torchvision): a batch sampler that draws classes and
images with `random.sample`, a DataLoader that turns each image into a float tensor and collates a task, then for every task one
forward pass of the support, class means, one forward pass of the queries, and distances. Both use the same network and the same
number of images per task. The peer is timed on some of the tasks, its cost a task being constant, and scaled to all.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator

import numpy as np
import torch
from machine import quiet, verdict
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from handful.data.collection import Card, Collection, as_table
from handful.methods import make
from handful.runs import evaluate
from handful.tasks import NWay

WAYS, SHOTS, QUERIES = 5, 5, 15


class Pictures(Dataset):
    def __init__(self, images: np.ndarray, labels: np.ndarray):
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        return torch.from_numpy(self.images[i]).permute(2, 0, 1).float() / 255, int(self.labels[i])


class TaskSampler(Sampler):
    """Lists of image numbers, a task each."""

    def __init__(self, labels: np.ndarray, tasks: int):
        self.tasks = tasks
        self.of: dict[int, list[int]] = {}
        for i, label in enumerate(labels.tolist()):
            self.of.setdefault(label, []).append(i)

    def __len__(self) -> int:
        return self.tasks

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self.tasks):
            chosen = random.sample(sorted(self.of), WAYS)
            yield [i for c in chosen for i in random.sample(self.of[c], SHOTS + QUERIES)]


def collate(items: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    images = torch.stack([x for x, _ in items])
    labels = torch.arange(WAYS).repeat_interleave(SHOTS + QUERIES).view(WAYS, -1)
    images = images.view(WAYS, SHOTS + QUERIES, *images.shape[1:])
    return (
        images[:, :SHOTS].flatten(0, 1),
        labels[:, :SHOTS].flatten(),
        images[:, SHOTS:].flatten(0, 1),
        labels[:, SHOTS:].flatten(),
    )


def peer(net: torch.nn.Module, images: np.ndarray, labels: np.ndarray, tasks: int) -> float:
    """Mean accuracy over tasks, one forward pass of support and one of queries per task."""
    loader = DataLoader(Pictures(images, labels), batch_sampler=TaskSampler(labels, tasks), collate_fn=collate)
    hits = []
    net.eval()
    with torch.no_grad():
        for support, y, query, answers in loader:
            features = net(support)
            prototypes = torch.stack([features[y == c].mean(0) for c in range(WAYS)])
            scores = -torch.cdist(net(query), prototypes)
            hits.append(float((scores.argmax(1) == answers).float().mean()))
    return float(np.mean(hits))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=3000)
    parser.add_argument("--images", type=int, default=12_000)
    parser.add_argument("--peer-tasks", type=int, default=150)
    options = parser.parse_args()
    torch.set_num_threads(1)
    judged = quiet()
    random.seed(0)
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(100), options.images // 100)
    patterns = rng.integers(0, 256, (100, 32, 32, 3))
    images = np.clip(patterns[labels] + rng.normal(0, 120, (len(labels), 32, 32, 3)), 0, 255).astype(np.uint8)
    card = Card("noise", "images", (32, 32, 3), ("k",), hash="0" * 64)
    source = Collection(card, as_table({"k": labels.astype(str)}), images)
    learner = make("protonet").untrained((32, 32, 3))
    peer(learner.backbone, images, labels, 5)
    start = time.perf_counter()
    theirs = peer(learner.backbone, images, labels, options.peer_tasks)
    slow = (time.perf_counter() - start) / options.peer_tasks * options.tasks
    start = time.perf_counter()
    run = evaluate(learner, NWay(source.whole, WAYS, SHOTS, QUERIES), options.tasks, 0)
    fast = time.perf_counter() - start
    print(f"evaluate {fast:.2f} s (accuracy {run.estimate()}); one forward a task {slow:.1f} s ({100 * theirs:.2f})")
    verdict(
        f"ProtoNet, {options.tasks:,} tasks: task sampler with a forward a task / evaluate", slow / fast, 10, judged
    )


if __name__ == "__main__":
    main()
