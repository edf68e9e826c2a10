"""The peers themselves, where they are installed: easyfsl's sampler and ProtoNet, learn2learn's MAML.

    pip install --no-deps --target /somewhere easyfsl learn2learn torchvision ...; PYTHONPATH=/somewhere python benchmarks/peers.py

They are installed outside the project: both import torchvision, and learn2learn also gym. A peer that cannot be imported is skipped
with a sentence. Same network, same images and same task sizes on both sides; processor time, one core each, in turns.
"""

from __future__ import annotations

import copy
import os
import sys
import time
import types
from collections.abc import Callable
from typing import Any

os.environ["HANDFUL_CORES"] = "1"  # the peers have one core too

import numpy as np
import torch
import torch.nn.functional as F
from machine import quiet, verdict
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

from handful.data.collection import Card, Collection, as_table
from handful.methods import make
from handful.nets import build
from handful.runs import evaluate
from handful.tasks import NWay

WAYS, SHOTS, QUERIES = 5, 5, 15


def noise(side: int, channels: int, classes: int, each: int) -> Collection:
    images = np.random.default_rng(0).integers(0, 256, (classes * each, side, side, channels), dtype=np.uint8)
    card = Card("noise", "images", (side, side, channels), ("k",), hash="0" * 64)
    return Collection(card, as_table({"k": np.repeat(np.arange(classes), each).astype(str)}), images)


class Pictures(Dataset):
    """What easyfsl samples from: images as tensors, and `get_labels`."""

    def __init__(self, source: Collection):
        self.images, self.labels = np.asarray(source.array), source.table["k"].cast(int).to_list()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(self.images[i]).permute(2, 0, 1).float() / 255, self.labels[i]

    def get_labels(self) -> list[int]:
        return self.labels


def spent(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def easyfsl(judged: bool, tasks: int = 3000, peer_tasks: int = 60) -> None:
    from easyfsl.methods import PrototypicalNetworks
    from easyfsl.samplers import TaskSampler

    source = noise(32, 3, 100, 120)
    learner = make("protonet").untrained((32, 32, 3))
    pictures = Pictures(source)
    sampler = TaskSampler(pictures, WAYS, SHOTS, QUERIES, peer_tasks)
    loader = DataLoader(pictures, batch_sampler=sampler, collate_fn=sampler.episodic_collate_fn)
    method = PrototypicalNetworks(copy.deepcopy(learner.backbone)).eval()

    def theirs() -> None:
        with torch.no_grad():
            for support, labels, query, _, _ in loader:
                method.process_support_set(support, labels)
                method(query)

    slow = spent(theirs) / peer_tasks * tasks
    fast = spent(lambda: evaluate(learner, NWay(source.whole, WAYS, SHOTS, QUERIES), tasks, 0, cache=False))
    print(f"easyfsl {slow:.1f} s for {tasks} tasks (timed on {peer_tasks}), evaluate {fast:.1f} s")
    verdict(f"ProtoNet, {tasks:,} tasks: easyfsl / evaluate, processor time", slow / fast, 10, judged)


def learn2learn(judged: bool) -> None:
    from learn2learn.algorithms import MAML

    rule = NWay(noise(28, 1, 20, 20).whole, 5, 1, 5)
    tasks = [rule.read(rule.draw(0, i)) for i in range(8)]
    for name, first_order in (("maml", False), ("fo-maml", True)):
        learner = make(name, inner_steps=5, inner_rate=0.1).untrained((28, 28, 1))
        learner.modules.train()
        peer = MAML(nn.Sequential(build("conv4", (28, 28, 1)), nn.Linear(64, 5)).train(), 0.1, first_order=first_order)
        data = []
        for t in tasks:
            x, q = (learner.backbone.normalise(torch.from_numpy(i)) for i in (t.support.images, t.query.images))
            data.append((x, torch.from_numpy(t.support.labels), q, torch.from_numpy(t.labels)))

        def step(peer: Any = peer, data: list[tuple[torch.Tensor, ...]] = data) -> None:
            losses = []
            for x, y, q, qy in data:
                twin = peer.clone()
                for _ in range(5):
                    twin.adapt(F.cross_entropy(twin(x), y))
                losses.append(F.cross_entropy(twin(q), qy))
            torch.autograd.grad(torch.stack(losses).mean(), list(peer.parameters()))

        def ours(learner: Any = learner) -> None:
            torch.autograd.grad(learner.outer_loss(tasks, torch.Generator()), list(learner.modules.parameters()))

        best = [float("inf")] * 2
        for _ in range(5):
            best = [min(b, spent(work)) for b, work in zip(best, (step, ours), strict=True)]
        verdict(f"{name} step: learn2learn, which computes less / ours", best[0] / best[1], 0, judged)


def main() -> None:
    torch.set_num_threads(1)
    judged = quiet()
    # Beside a torch for the processor, torchvision's wheel for CUDA cannot load its operators, which no peer needs.
    sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("none"))
    Sampler.__init__ = lambda self, data_source=None: None  # type: ignore[method-assign]  # easyfsl gives what torch no longer takes
    for row in (easyfsl, learn2learn):
        try:
            row(judged)
        except ImportError as error:
            print(f"{row.__name__} is skipped, for it cannot be imported here: {error}")


if __name__ == "__main__":
    main()
