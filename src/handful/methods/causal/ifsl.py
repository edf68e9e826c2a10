"""IFSL: interventional few-shot learning, on MatchingNet, MAML, MTL and SIB."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.batch import Batch
from handful.methods.embedded import EmbeddedLearner
from handful.methods.gradient.maml import rows
from handful.methods.gradient.mtl import MTL, descend
from handful.methods.gradient.sib import SIB
from handful.methods.layers.stages import Staged
from handful.methods.metric.matchingnet import MatchingNet
from handful.methods.schedule import Schedule
from handful.methods.stages import Stage
from handful.nets.compute import Compute
from handful.nets.features import embed_rows
from handful.tasks.rule import Rule


class Knowledge(nn.Module):
    """What pre-training has seen: the mean unit feature of every training class."""

    means: Tensor

    def __init__(self, n_classes: int, width: int):
        super().__init__()
        self.register_buffer("means", torch.zeros(n_classes, width))


def class_means(learner: EmbeddedLearner, train: Rule) -> Tensor:
    """Mean of the unit features of each class of the training part."""
    part = train.part
    x = embed_rows(learner.backbone, part.collection, part.rows, learner.compute)
    x = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    sums = np.zeros((part.n_classes, x.shape[1]))
    np.add.at(sums, part.classes, x)
    counts = np.bincount(part.classes, minlength=part.n_classes)
    return torch.as_tensor(sums / np.maximum(counts, 1)[:, None], dtype=torch.float32)


@dataclass(frozen=True, kw_only=True)
class Adjusted(Staged):
    """Interventional few-shot learning (Yue, Zhang, Sun, Hua, "Interventional few-shot learning", NeurIPS 2020).

    Pre-training is a confounder: it shapes the features and through them the labels. Instead of P(Y | x), a task is answered
    by the backdoor adjustment P(Y | do(x)), which averages over what pre-training may have contributed. ``feature``: the
    features are cut into n groups and each has a classifier, 1/n Σ_t P(Y | [x]_t). ``class``: beside x stands the average
    of the training classes' mean features, weighed by how much x looks like each, P(Y | x ⊕ Σ_i P(a_i | x) x̄_i).
    ``combined``: both, 1/n Σ_t P(Y | [x]_t ⊕ [Σ_i P(a_i | x) x̄_i]_t).

    Parameters
    ----------
    adjustment
        ``combined`` is the paper's best and the default.
    splits
        The number of groups n: 8 for MAML and MTL, 16 for MatchingNet, 4 for SIB.
    average
        Over the groups' ``probability``, as in the equation and for MatchingNet, or their ``log``, as for the others.
    features
        ``centred``, for MTL and SIB: features have unit length, are centred by the mean of the training classes' means,
        and each group has unit length again. ``raw``, for MAML and MatchingNet: as they are.
    pretrain, schedule
        First the backbone and a classifier over the training classes, on batches; then the task learner on the frozen backbone.

    Notes
    -----
    Groups, averages and features are those of yue-zhongqi/ifsl at 3503392 for ResNet-10 on miniImageNet. As there, P(a_i | x)
    is the pre-trained classifier's softmax on the whole of x, and the class average is their sum, without the paper's
    constant 1/m.
    """

    schedule: Schedule = field(default_factory=lambda: Schedule(steps=1000, rate=1e-3))
    adjustment: Literal["feature", "class", "combined"] = "combined"
    splits: int = 8
    average: Literal["probability", "log"] = "log"
    features: Literal["centred", "raw"] = "centred"

    second: ClassVar[tuple[str, ...]] = ("parts",)

    @property
    def n_parts(self) -> int:
        return 1 if self.adjustment == "class" else self.splits

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        width: int = backbone.width  # type: ignore[assignment]
        if self.splits < 1 or width % self.n_parts:
            raise BadInput(f"{self.name} cannot cut {width} features into {self.splits} equal groups; set splits")
        size = width // self.n_parts * (1 if self.adjustment == "feature" else 2)
        parts = nn.ModuleList([nn.ModuleDict(self.part_extras(size, n_classes)) for _ in range(self.n_parts)])
        return {
            "classifier": nn.Linear(width, n_classes),
            "knowledge": Knowledge(n_classes, width),
            "parts": parts,
        }

    def part_extras(self, size: int, n_classes: int) -> dict[str, nn.Module]:
        """The task learner's own modules for one group: those it would have on a backbone of that width."""
        found = super().extras(SimpleNamespace(width=size), n_classes)  # type: ignore[arg-type]
        found.pop("classifier", None)
        return found

    def part_head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        """The task learner's answer from one group."""
        return super().head(m, b)

    def load(self, state: dict[str, Tensor], facts: dict[str, Any], compute: Compute, where: str) -> EmbeddedLearner:
        """Folders that do not say which features they have are of versions that centred all."""
        if "features" not in facts.get("options", {"features": ""}):
            return self.with_options(features="centred", **self.before()).load(
                state, {**facts, "options": {"features": "centred"}}, compute, where
            )
        return super().load(state, facts, compute, where)

    def before(self) -> dict[str, Any]:
        """What those versions did otherwise, beside the features."""
        return {}

    def adjusted(self, m: nn.ModuleDict, x: Tensor) -> Tensor:
        """Features ``(..., width)`` as what each group's classifier sees: ``(parts, ..., size)``."""
        means: Any = m["knowledge"].means
        n = self.n_parts
        if self.features == "raw":
            own = torch.stack(x.chunk(n, -1))
        else:
            whole = F.normalize(F.normalize(x, dim=-1) - means.mean(0), dim=-1)
            own = F.normalize(torch.stack(whole.chunk(n, -1)), dim=-1)
        if self.adjustment == "feature":
            return own
        seen = torch.softmax(m["classifier"](x), -1) @ means
        return torch.cat([own, torch.stack(seen.chunk(n, -1))], -1)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        s, q = self.adjusted(m, b.s), self.adjusted(m, b.q)
        parts: Any = m["parts"]
        answers = [self.part_head(p, dataclasses.replace(b, s=s[t], q=q[t])) for t, p in enumerate(parts)]
        logs = torch.log_softmax(torch.stack(answers), -1).masked_fill(b.absent[None, :, None, :], 0.0)
        if self.average == "log":
            return b.close(logs.mean(0))
        return b.close(torch.logsumexp(logs, 0) - float(np.log(len(answers))))

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.head(m, b).flatten(0, 1), labels.flatten(), ignore_index=-2)

    def stages(self) -> list[Stage]:
        first, second = super().stages()
        return [first, Stage("batches", work=remember_classes), second]


def remember_classes(learner: EmbeddedLearner, train: Rule, valid: Rule | None) -> None:
    """Fill the knowledge with the class means of the pre-trained backbone."""
    learner.modules.eval()
    learner.modules["knowledge"].means.copy_(class_means(learner, train))  # type: ignore[operator, union-attr]


@dataclass(frozen=True, kw_only=True)
class IFSLMatchingNet(Adjusted, MatchingNet):
    """Matching Networks under intervention (Yue et al., NeurIPS 2020); see `Adjusted` and `MatchingNet`.

    Every group has a learned linear map, the identity at first, in place of the public code's full context embeddings
    (recurrent networks, whose answer depends on the order of the support).
    """

    splits: int = 16
    average: Literal["probability", "log"] = "probability"
    features: Literal["centred", "raw"] = "raw"

    name: ClassVar[str] = "matchingnet+ifsl"

    def part_extras(self, size: int, n_classes: int) -> dict[str, nn.Module]:
        encode = nn.Linear(size, size, bias=False)
        nn.init.eye_(encode.weight)
        return {"encode": encode}

    def part_head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return super().part_head(m, dataclasses.replace(b, s=m["encode"](b.s), q=m["encode"](b.q)))


@dataclass(frozen=True, kw_only=True)
class Start(Staged):
    """A small network over frozen features whose start is meta-learned and which descends on the support.

    Parameters
    ----------
    block
        ``deep``: linear to half the width, ReLU, linear back, linear to the classes, all of it adapted. ``linear``: the last
        layer alone, from zero, on features of unit mean length.
    inner_steps, inner_rate, scale
        Steps down the support's cross-entropy; what the queries' scores are multiplied by afterwards.
    """

    block: Literal["deep", "linear"] = "deep"
    inner_rate: float = 0.01
    inner_steps: int = 20
    scale: float = 5.0
    ways: int = 5

    tunes: ClassVar[bool] = True

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        width: int = backbone.width  # type: ignore[assignment]
        half = max(1, width // 2)
        last = nn.Linear(width if self.block == "linear" else 2 * half, self.ways)
        nn.init.zeros_(last.bias)
        if self.block == "linear":
            nn.init.zeros_(last.weight)
            return {"last": last}
        return {"narrow": nn.Linear(width, half), "widen": nn.Linear(half, 2 * half), "last": last}

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        start = [*rows(m["last"], b.C)]  # type: ignore[arg-type]
        if self.block == "linear":
            return b.close(self.scale * descend(b, start[0], start[1], self.inner_rate, self.inner_steps))
        start = [*m["narrow"].parameters(), *m["widen"].parameters(), *start]
        return b.close(self.scale * adapted(b, start, self.inner_rate, self.inner_steps))


def adapted(b: Batch, start: list[Tensor], rate: float, steps: int) -> Tensor:
    """Query scores of each task's own copy of a three-layer network after steps down its support's mean cross-entropy.

    Where the outer loss asks for gradients they pass through the steps, second derivatives included.
    """
    outer = torch.is_grad_enabled()
    hot = b.one_hot
    count = hot.sum((1, 2)).clamp_min(1)
    with torch.enable_grad():
        own = [w.expand(len(b.s), *w.shape) for w in start]
        own = [w if w.requires_grad else w.clone().requires_grad_() for w in own]
        for _ in range(steps):
            logs = torch.log_softmax(b.close(three_layers(b.s, own)), -1).masked_fill(b.absent[:, None, :], 0.0)
            loss = (-(hot * logs).sum((1, 2)) / count).sum()
            slopes = torch.autograd.grad(loss, own, create_graph=outer)
            own = [w - rate * g for w, g in zip(own, slopes, strict=True)]
            if not outer:
                own = [w.detach().requires_grad_() for w in own]
        scores = three_layers(b.q, own)
    return scores if outer else scores.detach()


def three_layers(x: Tensor, w: list[Tensor]) -> Tensor:
    """Linear, ReLU, linear, linear, with weights and biases of each task."""
    x = F.relu(x @ w[0].transpose(1, 2) + w[1][:, None])
    x = x @ w[2].transpose(1, 2) + w[3][:, None]
    return x @ w[4].transpose(1, 2) + w[5][:, None]


@dataclass(frozen=True, kw_only=True)
class IFSLMAML(Adjusted, Start):
    """MAML under intervention (Yue et al., NeurIPS 2020); see `Adjusted` and `Start`.

    As in the public code the backbone is frozen after pre-training and the inner loop moves each group's network of three
    layers from its meta-learned start, 20 steps of 0.01; the outer gradient passes through all of them, and scores are
    multiplied by 5.
    """

    features: Literal["centred", "raw"] = "raw"

    name: ClassVar[str] = "maml+ifsl"

    def before(self) -> dict[str, Any]:
        return {"block": "linear", "scale": 1.0}


@dataclass(frozen=True, kw_only=True)
class IFSLMTL(Adjusted, MTL):
    """MTL under intervention (Yue et al., NeurIPS 2020); see `Adjusted` and `MTL`.

    Tasks meta-learn the backbone's scales and shifts and the start of each group's linear classifier. The public code makes
    the classifiers anew for each task and fits them by Adam (0.005, weight decay 0.001) in 100 passes.
    """

    name: ClassVar[str] = "mtl+ifsl"
    first: ClassVar[tuple[str, ...]] = MTL.first
    second: ClassVar[tuple[str, ...]] = ("backbone.scale", "backbone.shift", "parts")


@dataclass(frozen=True, kw_only=True)
class IFSLSIB(Adjusted, SIB):
    """SIB under intervention (Yue et al., NeurIPS 2020); see `Adjusted` and `SIB`. Transductive, as SIB is."""

    splits: int = 4

    name: ClassVar[str] = "sib+ifsl"
