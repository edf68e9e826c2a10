"""Contrastive pre-training with global and local terms, then episodes across two views."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch, pad
from handful.methods.embedded import EmbeddedLearner
from handful.methods.heads import cosine
from handful.methods.layers.contrast import info_nce, nt_xent, supervised
from handful.methods.layers.local import descriptors
from handful.methods.layers.stages import Staged
from handful.methods.layers.views import random_view
from handful.methods.schedule import Schedule
from handful.methods.stages import Loss, Stage
from handful.methods.training import Drawn
from handful.tasks.episode import Task
from handful.tasks.rule import Rule


class Projections(nn.Module):
    """Global vectors and local descriptors into the spaces in which they are compared."""

    def __init__(self, channels: int, width: int):
        super().__init__()
        self.vector = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, width))
        self.place = nn.Sequential(nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, width))
        self.q, self.k, self.v = (nn.Linear(channels, width) for _ in range(3))


@dataclass(frozen=True, kw_only=True)
class Contrastive(Staged):
    """Few-shot classification with contrastive learning (Yang, Wang, Zhu, ECCV 2022).

    Pre-training adds to the cross-entropy, on two random views of each image: a contrastive loss of their vectors, the
    same with the class as positive (Khosla et al. 2020), and two local ones, vector against map and map against map (the
    maps aligned by attention). Then come tasks: class means from one view classify the queries of both views, and the
    other way round (cross-view episodic training).

    Parameters
    ----------
    alone, local, by_class
        Weights of the contrastive terms beside the cross-entropy. The paper's values were not at hand; 1 each here.
    temperature
        Of all contrastive terms; 0.1 here.
    scale
        The logits of a task are scale · cosine to the class means.

    Notes
    -----
    Written from the paper; we know of no public code of its authors', so nothing here was compared. Left out: the distance-scaled
    contrastive loss of the task stage, whose weights the paper alone does not settle. (infoPatch, Liu et al., AAAI 2021,
    corwinliu9669/Learning-a-Few-shot-Embedding-Model-with-Contrastive-Learning, is another paper's code.) An image's vector
    is the mean of its map.
    """

    pretrain: Schedule = field(default_factory=lambda: Schedule(steps=2000, batch=64))
    alone: float = 1.0
    local: float = 1.0
    by_class: float = 1.0
    temperature: float = 0.1
    scale: float = 10.0
    width: int = 64

    name: ClassVar[str] = "contrastive"
    maps: ClassVar[bool] = True
    first: ClassVar[tuple[str, ...]] = ("backbone", "classifier", "projections")

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        channels: int = backbone.map_shape[0]  # type: ignore[index, assignment]
        return {"classifier": nn.Linear(channels, n_classes), "projections": Projections(channels, self.width)}

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        both = m["backbone"].maps(torch.cat([random_view(x), random_view(x)])).float()  # type: ignore[operator]
        vectors, places = both.mean((2, 3)), descriptors(both)
        twice = labels.repeat(2)
        p: Projections = m["projections"]  # type: ignore[assignment]
        n, t = len(x), self.temperature
        z = p.vector(vectors)
        loss = F.cross_entropy(m["classifier"](vectors), twice)
        if self.alone:
            loss = loss + self.alone * nt_xent(z[:n], z[n:], t)
        if self.by_class:
            loss = loss + self.by_class * supervised(z, twice, t)
        if self.local:
            u = p.place(places)
            q, k, v = p.q(places), p.k(places), p.v(places)
            for a, b in ((slice(0, n), slice(n, None)), (slice(n, None), slice(0, n))):
                terms = info_nce(vector_map(z[a], u[b]), t) + info_nce(map_map(q[a], k[b], v[a], v[b]), t)
                loss = loss + self.local * terms / 2
        return loss

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        s, q = b.s.mean((-2, -1)), b.q.mean((-2, -1))
        return b.close(self.scale * cosine(q, b.prototypes(s)))

    def stages(self) -> list[Stage]:
        first, second = super().stages()
        return [first, replace(second, loss=self.loss_across_views)]

    def loss_across_views(self, learner: EmbeddedLearner, train: Rule) -> Loss:
        drawn = Drawn(train, self.schedule)
        return lambda step: self.crossed(learner, drawn.tasks(step))

    def crossed(self, learner: EmbeddedLearner, tasks: list[Task]) -> Tensor:
        """Loss of the tasks over all four pairings of support view and query view."""
        device, backbone = learner.compute.device, learner.backbone
        parts = [x for t in tasks for x in (t.support.images, t.query.images) if x is not None]
        x = backbone.normalise(torch.from_numpy(np.concatenate(parts)).to(device))  # type: ignore[operator]
        views = [backbone.maps(random_view(x)).float() for _ in range(2)]  # type: ignore[operator]
        losses = []
        for of_support in views:
            for of_query in views:
                cut, answers, at = [], [], 0
                for t in tasks:
                    a, b = len(t.support), len(t.query)
                    cut.append((of_support[at : at + a], t.support.labels, of_query[at + a : at + a + b]))
                    answers.append(torch.as_tensor(np.asarray(t.labels), device=device))
                    at += a + b
                batch = pad(cut, [t.support.shape for t in tasks], [t.support.seed for t in tasks])
                labels = nn.utils.rnn.pad_sequence(answers, batch_first=True, padding_value=-2)
                losses.append(self.task_loss(learner.modules, batch, labels))
        return torch.stack(losses).mean()


def vector_map(z: Tensor, u: Tensor) -> Tensor:
    """``(n, n)`` mean cosines of each vector ``(n, d)`` with all places of each map ``(n, r, d)``."""
    return F.normalize(z, dim=-1) @ F.normalize(u, dim=-1).mean(1).T


def map_map(q: Tensor, k: Tensor, v: Tensor, w: Tensor) -> Tensor:
    """``(n, n)`` mean cosines of the places of map i (``v``) with those of map j (``w``), aligned by attention of q on k."""
    attention = torch.softmax(torch.einsum("ird,jsd->ijrs", q, k) / q.shape[-1] ** 0.5, -1)
    aligned = F.normalize(torch.einsum("ijrs,jsd->ijrd", attention, w), dim=-1)
    return torch.einsum("ird,ijrd->ijr", F.normalize(v, dim=-1), aligned).mean(2)
