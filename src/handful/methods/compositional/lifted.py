"""The one adapter that lifts a one-axis learner to pairs: two classifiers on a shared backbone, log-probabilities added.

    log p(i, j | x) = log p₁(i | x) + log p₂(j | x)

These sum to one over the N1 x N2 grid, so the cross-entropy of a pair is the sum of the two primitives' cross-entropies:
whatever trains by cross-entropy on pair logits trains two parallel classifiers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import Mismatch
from handful.methods.answering import answers
from handful.methods.batch import Batch
from handful.methods.contract import Learner, Method
from handful.methods.embedded import Embedded
from handful.methods.finetuning.baseline import Baseline, BaselinePP
from handful.methods.gradient.anil import ANIL, LastLayerLearner
from handful.methods.gradient.maml import MAML, GradientLearner, State, rows
from handful.methods.metric.matchingnet import MatchingNet
from handful.methods.metric.protonet import ProtoNet
from handful.methods.metric.relationnet import RelationNet
from handful.methods.schedule import Schedule
from handful.metrics.pairs import harmonic, pair_row
from handful.nets import build as build_net
from handful.nets.compute import Compute
from handful.tasks import random
from handful.tasks.episode import Support
from handful.tasks.rule import Rule


def axis_labels(labels: Tensor, second: Tensor | int) -> tuple[Tensor, Tensor]:
    """Flat pair labels as labels of each axis; negative ones (padding, unlabelled) stay as they are."""
    a = torch.div(labels.clamp_min(0), second, rounding_mode="floor")
    b = labels.clamp_min(0) % second
    return torch.where(labels < 0, labels, a), torch.where(labels < 0, labels, b)


def sides(b: Batch) -> Tensor:
    """``(T, 2)`` primitives on each axis."""
    return torch.as_tensor(np.asarray(b.shapes, dtype=np.int64).reshape(-1, 2), device=b.n.device)


def axes_of(b: Batch) -> tuple[Batch, Batch]:
    """A batch of pair tasks as one batch of one-axis tasks for each axis, on the same features."""
    n = sides(b)
    out = []
    for axis, labels in enumerate(axis_labels(b.y, n[:, 1:])):
        out.append(
            replace(
                b,
                y=labels,
                n=n[:, axis],
                seeds=[int(seed) ^ axis for seed in b.seeds],
                shapes=[(shape[axis],) for shape in b.shapes],
                sizes=None,
                descriptions=None if b.descriptions is None else [d and (d[axis],) for d in b.descriptions],
            )
        )
    return out[0], out[1]


def join(b: Batch, first: Tensor, second: Tensor) -> Tensor:
    """Pair log-probabilities ``(T, Q, C)`` from the logits of each axis."""
    p, q = F.log_softmax(first, -1), F.log_softmax(second, -1)
    n2 = sides(b)[:, 1:]
    pair = torch.arange(b.C, device=b.n.device)
    i = (pair // n2).clamp_max(first.shape[-1] - 1)[:, None, :].expand(-1, first.shape[1], -1)
    j = (pair % n2)[:, None, :].expand(-1, first.shape[1], -1)
    return b.close(torch.gather(p, 2, i) + torch.gather(q, 2, j))


def counts_of(n_classes: Any) -> tuple[int, int]:
    """Training primitives of each axis, from a pair rule's two numbers or one for both."""
    return (n_classes[0], n_classes[1]) if isinstance(n_classes, (tuple, list)) else (n_classes, n_classes)


class Pairwise:
    """What every pair method shares: two axes, training on pair rules, selection by validation HM."""

    axes: ClassVar[int] = 2

    def for_training(self, train: Rule, valid: Rule | None) -> tuple[Method, Rule]:
        for rule in (train, valid):
            if rule is not None and rule.axes != 2:
                raise Mismatch(
                    f"{self.name} learns from pair tasks, {rule.name} tasks have one label axis; use the rule pairs"  # type: ignore[attr-defined]
                )
        return super().for_training(train, valid)  # type: ignore[misc]

    def selection_score(self, learner: Learner, valid: Rule, schedule: Schedule) -> float:
        """Harmonic mean of mean unseen and seen accuracy over the validation tasks."""
        seed = random.subseed(schedule.seed, "valid")
        found = answers(learner, valid, schedule.validate_tasks, seed)
        rows = [pair_row(a.episode, a.scores.argmax(1)) for a in found]
        return harmonic(*(float(np.nanmean([row[key] for row in rows])) for key in ("unseen", "seen")))


class Lifted(Pairwise):
    """Mixed in before an `Embedded` method, makes it answer for pairs: ``class PairX(Lifted, X)``.

    Each axis has modules of its own beside the backbone they share; the training loss is the sum of both axes'.
    """

    of: ClassVar[type[Embedded]]
    """The one-axis method: the base beside this one."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.of = next(base for base in cls.__mro__[1:] if issubclass(base, Embedded) and not issubclass(base, Lifted))

    @property
    def one(self) -> Embedded:
        """The one-axis method with the same options."""
        return self.of(**{f.name: getattr(self, f.name) for f in fields(self.of)})

    def extras(self, backbone: nn.Module, n_classes: Any) -> dict[str, nn.Module]:
        first, second = counts_of(n_classes)
        return {
            "first": nn.ModuleDict(self.one.extras(backbone, first)),
            "second": nn.ModuleDict(self.one.extras(backbone, second)),
        }

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        first, second = axes_of(b)
        return join(b, self.one.head(_axis(m, 0), first), self.one.head(_axis(m, 1), second))

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        batches, each = axes_of(b), axis_labels(labels, sides(b)[:, 1:])
        losses = [self.one.task_loss(_axis(m, i), batches[i], each[i]) for i in range(2)]
        return losses[0] + losses[1]

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        features, same = m["backbone"](x), nn.Identity()
        losses = [self.one.batch_loss(_axis(m, i, same), features, labels[:, i]) for i in range(2)]
        return losses[0] + losses[1]


def _axis(m: nn.ModuleDict, axis: int, backbone: nn.Module | None = None) -> nn.ModuleDict:
    own: Any = m["second" if axis else "first"]
    return nn.ModuleDict({"backbone": m["backbone"] if backbone is None else backbone, **dict(own.items())})


class LiftedGradient(Pairwise):
    """The same for MAML and its kin: two last layers on one backbone, adapted together."""

    def untrained(self, shape: tuple[int, ...], n_classes: Any = 2, compute: Compute | None = None) -> GradientLearner:
        method: Any = self
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(method.schedule.seed)
            backbone = build_net(method.net, tuple(shape), method.schedule.seed)
            last = nn.ModuleList([nn.Linear(backbone.width, method.ways) for _ in range(2)])
        return self.learner(
            method, nn.ModuleDict({"backbone": backbone, "last": last}), tuple(shape), compute or Compute()
        )

    learner: ClassVar[type[GradientLearner]]


class TwoLayers:
    """Mixed in before a gradient learner: two last layers, pair log-probabilities."""

    modules: nn.ModuleDict

    def ways(self, support: Support) -> tuple[int, ...]:
        return support.shape

    def initial(self, ways: Any) -> State:
        params: State = {f"backbone.{k}": v for k, v in self.modules["backbone"].named_parameters()}
        for axis, n in enumerate(ways):
            layer: Any = self.modules["last"][axis]  # type: ignore[index]
            params[f"last.{axis}.weight"], params[f"last.{axis}.bias"] = rows(layer, n)
        return params

    def classify(self, params: State, features: Tensor) -> Tensor:
        p, q = (
            F.log_softmax(F.linear(features, params[f"last.{axis}.weight"], params[f"last.{axis}.bias"]), -1)
            for axis in range(2)
        )
        return (p[..., :, None] + q[..., None, :]).flatten(-2)


class PairGradientLearner(TwoLayers, GradientLearner):
    """MAML's learner over pairs."""


class PairLastLayerLearner(TwoLayers, LastLayerLearner):
    """ANIL's learner over pairs."""


@dataclass(frozen=True, kw_only=True)
class PairProtoNet(Lifted, ProtoNet):
    """`ProtoNet` on pairs: a prototype for each primitive, of all support images that have it."""

    name: ClassVar[str] = "pair-protonet"


@dataclass(frozen=True, kw_only=True)
class PairMatchingNet(Lifted, MatchingNet):
    """`MatchingNet` on pairs."""

    name: ClassVar[str] = "pair-matchingnet"


@dataclass(frozen=True, kw_only=True)
class PairRelationNet(Lifted, RelationNet):
    """`RelationNet` on pairs. Primitives have different numbers of support images, so maps are averaged, not summed."""

    pool: Literal["sum", "mean"] = "mean"

    name: ClassVar[str] = "pair-relationnet"


@dataclass(frozen=True, kw_only=True)
class PairBaseline(Lifted, Baseline):
    """`Baseline` on pairs: two linear classifiers in training and in each task."""

    name: ClassVar[str] = "pair-baseline"


@dataclass(frozen=True, kw_only=True)
class PairBaselinePP(Lifted, BaselinePP):
    """`Baseline++` on pairs: two cosine classifiers, with a learned scalar of each class, in training and in each task."""

    name: ClassVar[str] = "pair-baseline++"


@dataclass(frozen=True, kw_only=True)
class PairMAML(LiftedGradient, MAML):
    """`MAML` on pairs. RLCL's inner step size is 0.4; options as MAML's."""

    name: ClassVar[str] = "pair-maml"
    learner: ClassVar[type[GradientLearner]] = PairGradientLearner


@dataclass(frozen=True, kw_only=True)
class PairANIL(LiftedGradient, ANIL):
    """`ANIL` on pairs."""

    name: ClassVar[str] = "pair-anil"
    learner: ClassVar[type[GradientLearner]] = PairLastLayerLearner
