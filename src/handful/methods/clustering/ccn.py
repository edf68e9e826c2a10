"""Constrained clustering networks (KCL, MCL): a network trained anew to cluster each task."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import ClassVar, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput, Mismatch
from handful.methods.augment import augment
from handful.methods.batch import Batch
from handful.methods.clustering.clusterer import labelled_tasks
from handful.methods.clustering.pairs import PairNet, kcl, mcl
from handful.methods.contract import Method, Predictor
from handful.methods.embedded import Embedded
from handful.methods.modules import ModuleLearner
from handful.methods.schedule import Schedule
from handful.nets import Backbone
from handful.nets import build as build_net
from handful.nets.compute import Compute
from handful.nets.features import embed_images
from handful.nets.given import Net
from handful.tasks.episode import Query, Support
from handful.tasks.rule import Rule


@dataclass(frozen=True, kw_only=True)
class CCN(Embedded):
    """Constrained clustering network (Hsu, Lv, Kira, ICLR 2018; Hsu et al., ICLR 2019).

    A similarity network learns on labelled classes whether two images are of one class. A task without labels gets its
    binary word on all pairs, and a second network, trained from scratch on the task's images, whose clusters follow it:
    by KCL, ``alike * KL(p_i || p_j) + unlike * max(0, margin - KL(p_i || p_j))``, or by MCL, the cross-entropy of
    ``p_i . p_j``.

    Parameters
    ----------
    net
        ``vggs``, the published architecture for Omniglot at 32x32; both networks have one of their own.
    loss, margin
        ``kcl`` or ``mcl``; the margin 2 of KCL.
    hidden
        Units of the similarity network's pair layer as a multiple of the backbone's width: 4.
    passes, decay_at, batch, rate
        Of the clustering network on a task's images: 150 passes in batches of 100, Adam 1e-3, a tenth after pass 100.
    crop
        Crops the task's images at random in every pass.
    clusters
        The clustering network's outputs; 0 for the number of classes that the task tells. With more (the papers use 100
        where the number is unknown) only the task's number of clusters with most images can be matched.
    adapt
        The similarity network's batch norm takes its statistics from the task's images, as in the public code; the papers
        do not say so. It needs tasks with about as many classes as the training tasks have.

    Notes
    -----
    Public code: batches of 20 classes x 5 images, 50 epochs, the rate a tenth after 30 and 40; similarities are
    predicted on the augmented images of every batch, here once a task on the images as they are.
    """

    net: Net = "vggs"
    loss: Literal["kcl", "mcl"] = "mcl"
    margin: float = 2.0
    hidden: float = 4.0
    passes: int = 150
    decay_at: int = 100
    batch: int = 100
    rate: float = 1e-3
    crop: bool = True
    clusters: int = 0
    adapt: bool = False
    schedule: Schedule = field(default=Schedule(steps=9600, milestones=(0.6, 0.8), augment=("crop",), select="last"))

    name: ClassVar[str] = "ccn"
    tunes: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"images"})

    def __post_init__(self) -> None:
        if self.passes < 1 or self.batch < 2 or self.rate <= 0 or self.hidden <= 0 or self.clusters < 0:
            raise BadInput("ccn: passes must be at least 1, batch 2, clusters 0, rate and hidden above 0")

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        width: int = backbone.width  # type: ignore[assignment]
        return {"pairs": PairNet(width, max(2, round(self.hidden * width)))}

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        """Cross-entropy of alike or not over all pairs of each task's images, support and query together."""
        losses = []
        for t in range(len(b.s)):
            y = torch.cat([b.y[t], labels[t]])
            known = y >= 0
            y, z = y[known], torch.cat([b.s[t], b.q[t]])[known]
            logits = m["pairs"](z)
            losses.append(F.cross_entropy(logits.flatten(0, 1), (y[:, None] == y[None, :]).long().flatten()))
        return torch.stack(losses).mean()

    def for_training(self, train: Rule, valid: Rule | None) -> tuple[Method, Rule]:
        return super().for_training(labelled_tasks(self, train), valid)

    def selection_score(self, learner: CCNLearner, valid: Rule, schedule: Schedule) -> float:
        """How well the similarity network tells pairs: mean F1 of alike pairs on validation tasks."""
        scores = []
        for episode in valid.draw_block(schedule.seed, 0, schedule.validate_tasks):
            alike = learner.alike(valid.part.collection.read(episode.support)).cpu().numpy()
            truth = episode.support_labels[:, None] == episode.support_labels[None, :]
            scores.append(2 * (alike & truth).sum() / max(1, alike.sum() + truth.sum()))
        return float(np.mean(scores))

    def untrained(  # type: ignore[override]
        self, shape: tuple[int, ...], n_classes: int = 2, compute: Compute | None = None
    ) -> CCNLearner:
        return CCNLearner(self, self.modules(tuple(shape), n_classes), tuple(shape), n_classes, compute or Compute())


class CCNLearner(ModuleLearner):
    """The trained similarity network; `fit` trains a clustering network on the task's images."""

    method: CCN

    def alike(self, images: np.ndarray) -> Tensor:
        """``(n, n)`` the similarity network's word on every pair of images."""
        if not self.method.adapt:
            with torch.no_grad():
                return cast(PairNet, self.modules["pairs"]).alike(
                    embed_images(self.backbone, images, self.compute).clone()
                )
        own = copy.deepcopy(self.modules).train()
        with torch.no_grad():
            x = torch.from_numpy(np.array(images)).to(self.compute.device)
            backbone = cast(Backbone, own["backbone"])
            return cast(PairNet, own["pairs"]).alike(backbone(backbone.normalise(x)).float())

    def fit(self, support: Support) -> CCNPredictor:
        if support.images is None or len(support.images) < 2:
            raise Mismatch("ccn clusters the images of a task and needs two or more of them")
        with self.compute.here():
            alike = self.alike(self.fitting(support.images))
            net = self._train(support, alike)
        return CCNPredictor(self, net, support)

    def _train(self, support: Support, alike: Tensor) -> nn.ModuleDict:
        method, device = self.method, self.compute.device
        assert support.images is not None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(support.seed & (2**63 - 1))
            backbone = build_net(method.net, self.shape, support.seed & (2**31 - 1))
            half = max(2, backbone.width // 2)
            last = nn.Linear(half, method.clusters or support.n_classes)
            head = nn.Sequential(nn.Linear(backbone.width, half), nn.BatchNorm1d(half), nn.ReLU(), last)
        net = nn.ModuleDict({"backbone": backbone, "head": head}).to(device).train()
        optimiser = torch.optim.Adam(net.parameters(), method.rate)
        generator = torch.Generator().manual_seed(support.seed & (2**63 - 1))
        images = torch.from_numpy(np.array(support.images)).to(device)
        n = len(images)
        size = -(-n // max(1, round(n / method.batch)))
        for number in range(method.passes):
            for group in optimiser.param_groups:
                group["lr"] = method.rate * (0.1 if number >= method.decay_at else 1.0)
            order = torch.randperm(n, generator=generator).to(device)
            for pick in order.split(size):
                if len(pick) < 2:
                    continue
                x = augment(images[pick], ("crop",) if method.crop else (), generator)
                log_p = F.log_softmax(head(backbone(backbone.normalise(x))).float(), 1)
                pairs = alike[pick][:, pick]
                loss = kcl(log_p, pairs, method.margin) if method.loss == "kcl" else mcl(log_p, pairs)
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()
        return net.eval()


class CCNPredictor(Predictor):
    def __init__(self, learner: CCNLearner, net: nn.ModuleDict, support: Support):
        self.learner, self.net, self.support = learner, net, support

    def _scores(self, images: np.ndarray) -> np.ndarray:
        with self.learner.compute.here(), torch.no_grad():
            features = embed_images(self.net["backbone"], images, self.learner.compute).clone()
            return self.net["head"](features).float().cpu().numpy()

    def predict(self, query: Query) -> np.ndarray:
        return self._named(self._scores(query.images))

    def support_scores(self) -> np.ndarray:
        assert self.support.images is not None
        return self._named(self._scores(self.support.images))

    def _named(self, scores: np.ndarray) -> np.ndarray:
        """The columns of the fullest clusters, as many as the task has classes."""
        k = self.support.n_classes
        if scores.shape[1] == k:
            return scores
        assert self.support.images is not None
        sizes = np.bincount(self._scores(self.support.images).argmax(1), minlength=scores.shape[1])
        keep = np.sort(np.argsort(-sizes, kind="stable")[:k])
        out = np.full((len(scores), k), -np.inf, dtype=np.float32)
        out[:, : len(keep)] = scores[:, keep]
        return out
