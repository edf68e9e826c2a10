"""LFT: feature-wise transformation whose strength is learned against a held-out training domain, on RelationNet, GNN and TPN."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from handful.errors import BadInput, Infeasible, nearest
from handful.methods import distributed
from handful.methods.augment import augment
from handful.methods.crossdomain.ft import deviation, last_norms
from handful.methods.embedded import Embedded, EmbeddedLearner
from handful.methods.metric.gnn import GNN
from handful.methods.metric.relationnet import RelationNet
from handful.methods.metric.tpn import TPN
from handful.methods.stages import Loss as StepLoss
from handful.methods.stages import Stage
from handful.methods.training import Drawn, step_generator, task_batch_loss
from handful.nets.compute import Compute
from handful.tasks import random
from handful.tasks.episode import Task
from handful.tasks.rule import Rule


class Strength(nn.Module):
    """θ_γ and θ_β of one batch norm, one number per channel; as its forward hook it changes what the norm gives in training."""

    def __init__(self, channels: int, gamma: float, beta: float):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((1, channels, 1, 1), float(gamma)))
        self.beta = nn.Parameter(torch.full((1, channels, 1, 1), float(beta)))

    def transform(self, layer: nn.Module, inputs: Any, out: Tensor) -> Tensor | None:
        if not layer.training:
            return None
        gamma = 1 + deviation(self.gamma) * torch.randn(self.gamma.shape).to(out)
        return gamma * out + deviation(self.beta) * torch.randn(self.beta.shape).to(out)


class Loss(nn.Module):
    """The task loss as a module's forward, so that it can be called with other weights than the module's own."""

    def __init__(self, method: Embedded, learner: EmbeddedLearner):
        super().__init__()
        self.m = learner.modules
        self.method, self.learner = method, learner

    def forward(self, tasks: list[Task], generator: torch.Generator) -> Tensor:
        return task_batch_loss(self.learner, tasks, self.method.schedule.augment, generator)


@dataclass(frozen=True, kw_only=True)
class LearnedFeatureWise(Embedded):
    """Learned feature-wise transformation (Tseng, Lee, Huang, Yang, "Cross-domain few-shot classification via learned feature-wise transformation", ICLR 2020).

    As in the hand-set form (`FeatureWise`), activations after the last batch norm of each block become γ z + β in training
    with γ ~ N(1, s(θ_γ)), β ~ N(0, s(θ_β)) for each channel; but θ is learned. Each step takes a task of a pseudo-seen
    domain and one of a pseudo-unseen domain. The model moves down the first's loss with the transformation on; θ moves
    down the second's loss, with the transformation off, at the weights that the first step would reach:
    w' = w - α ∇_w L_seen(w, θ), θ ← θ - α ∇_θ L_unseen(w'). An auxiliary loss keeps the features steady: the
    cross-entropy of a three-layer classifier over the training classes on 16 images, with the transformation off.

    Parameters
    ----------
    gamma, beta
        Where θ_γ and θ_β start: 0.3 and 0.5, as published.
    inner_rate
        α of w'; 0.001, the rate of Adam in the public code.
    auxiliary
        Weight of the auxiliary loss at first; every twentieth of the training takes a tenth of it away. 0 leaves it out.
    domain
        The column whose values are the domains: ``dataset`` if there is one with several values in the training part, else
        the collection's contexts. Domains whose images cannot serve the training rule are left out; two are needed.

    Notes
    -----
    Read in hytseng0509/CrossDomainFewShot at 57cc841. As there L_unseen is taken in evaluation mode (running statistics, no transformation) and the model's own
    step does not look at it. The code draws a new pair of domains every hundred tasks, here every step does; its weight
    decay of 1e-8 on θ is left out; its auxiliary images are miniImageNet's, here all domains'. The paper starts from a backbone pre-trained by classification: give ``net`` weights for that.
    """

    gamma: float = 0.3
    beta: float = 0.5
    inner_rate: float = 1e-3
    auxiliary: float = 1.0
    domain: str = ""

    def modules(self, shape: tuple[int, ...], n_classes: int) -> nn.ModuleDict:
        m = super().modules(shape, n_classes)
        layers = last_norms(m["backbone"])
        strengths = [Strength(layer.num_features, self.gamma, self.beta) for layer in layers]
        m["transformation"] = nn.ModuleList(strengths)
        for layer, strength in zip(layers, strengths, strict=True):
            layer.register_forward_hook(strength.transform)
        if self.auxiliary:
            backbone: Any = m["backbone"]
            width = backbone.map_shape[0] if self.maps else backbone.width
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(random.subseed(self.schedule.seed, "auxiliary"))
                m["auxiliary"] = nn.Sequential(
                    *(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()),
                    nn.Linear(width, n_classes),
                )
        return m

    def load(self, state: dict[str, Tensor], facts: dict[str, Any], compute: Compute, where: str) -> EmbeddedLearner:
        """Folders of earlier versions lack the auxiliary classifier and the shortcuts' strengths, which only train."""
        fresh = self.untrained(tuple(facts["shape"]), facts["n_classes"], compute).state()
        only_train = {k: v for k, v in fresh.items() if k.startswith(("auxiliary.", "transformation."))}
        return super().load({**only_train, **state}, facts, compute, where)

    def stages(self) -> list[Stage]:
        labels: tuple[Any, ...] = ("global", "local") if self.auxiliary else ("local",)
        return [Stage("tasks", self.schedule, loss=self.loss_across_domains, labels=labels)]

    def loss_across_domains(self, learner: EmbeddedLearner, train: Rule) -> StepLoss:
        domains = [Drawn(rule, self.schedule) for rule in domain_rules(train, self.domain, self.name)]
        of = Loss(self, learner)

        def loss(step: int) -> Tensor:
            generator = step_generator(self.schedule, step)
            seen, unseen = torch.randperm(len(domains), generator=generator)[:2].tolist()
            both = self.two_losses(of, domains[seen].tasks(step), domains[unseen].tasks(step), generator)
            weight = self.auxiliary_weight(step)
            return both + weight * self.auxiliary_loss(learner, train, step, generator) if weight else both

        return loss

    def auxiliary_weight(self, number: int) -> float:
        """The weight at a micro-batch of the training."""
        last = self.schedule.steps * self.schedule.accumulate * distributed.cut(self.schedule)
        return self.auxiliary * 0.9 ** (20 * number // last)

    def auxiliary_loss(self, learner: EmbeddedLearner, train: Rule, number: int, generator: torch.Generator) -> Tensor:
        """Cross-entropy over the training classes of 16 images, in evaluation mode as in the public code."""
        rows, labels = next(train.batch_rows(random.subseed(self.schedule.seed, "auxiliary"), 16, number))
        m, device = learner.modules, learner.compute.device
        images = torch.from_numpy(np.array(train.part.collection.read(rows))).to(device)
        x = learner.backbone.normalise(augment(images, self.schedule.augment, generator))
        training = m.training
        m.eval()
        with learner.compute.autocast():
            features = learner.backbone.maps(x).mean((2, 3)) if self.maps else learner.backbone(x)
            scores = m["auxiliary"](features).float()
        m.train(training)
        return F.cross_entropy(scores, torch.as_tensor(labels, device=device))

    def two_losses(self, of: Loss, seen: list[Task], unseen: list[Task], generator: torch.Generator) -> Tensor:
        """A number with the value of the seen tasks' loss whose gradient is that loss's for the model, the other's for θ."""
        model = {k: p for k, p in of.named_parameters() if ".transformation." not in k and p.requires_grad}
        theta = [p for k, p in of.named_parameters() if ".transformation." in k]
        first = of(seen, generator)
        slopes = torch.autograd.grad(first, list(model.values()), create_graph=True, allow_unused=True)
        moved = {
            k: p if g is None else p - self.inner_rate * g for (k, p), g in zip(model.items(), slopes, strict=True)
        }
        training = of.m.training
        of.m.eval()
        second = functional_call(of, moved, (unseen, generator))
        of.m.train(training)
        theta_slopes = torch.autograd.grad(second, theta, allow_unused=True)
        value = first.detach()
        for p, g in zip([*model.values(), *theta], [*slopes, *theta_slopes], strict=True):
            if g is not None:
                steered = (p * g.detach()).sum()
                value = value + steered - steered.detach()
        return value


def domain_rules(train: Rule, column: str, name: str) -> list[Rule]:
    """The training rule on each domain's images alone, where it can be drawn."""
    collection, part = train.part.collection, train.part
    if column and column not in collection.table.columns:
        raise BadInput(f"{collection.card.name} has no column {column!r}; {nearest(column, collection.table.columns)}")
    for wanted in [column] if column else ["dataset", str(collection.card.context)]:
        if wanted not in collection.table.columns:
            continue
        values = collection.table[wanted].cast(pl.String).fill_null("")[part.rows].to_numpy()
        rules = []
        for value in np.unique(values[values != ""]):
            rule = dataclasses.replace(train, part=part.where(values == value, str(value)))
            try:
                rule.check()
            except Infeasible:
                continue
            rules.append(rule)
        if len(rules) > 1:
            return rules
    raise BadInput(
        f"{name} learns from at least two training domains that can serve {train.name} tasks, and {collection.card.name} "
        "has fewer; name a column with domain=, ask smaller tasks, or use the +ft form"
    )


@dataclass(frozen=True, kw_only=True)
class RelationNetLFT(LearnedFeatureWise, RelationNet):
    """RelationNet with learned feature-wise transformation (Tseng et al., ICLR 2020); see `LearnedFeatureWise`."""

    name: ClassVar[str] = "relationnet+lft"


@dataclass(frozen=True, kw_only=True)
class GNNLFT(LearnedFeatureWise, GNN):
    """GNN with learned feature-wise transformation (Tseng et al., ICLR 2020); see `LearnedFeatureWise`."""

    name: ClassVar[str] = "gnn+lft"


@dataclass(frozen=True, kw_only=True)
class TPNLFT(LearnedFeatureWise, TPN):
    """TPN with learned feature-wise transformation (Tseng et al., ICLR 2020); see `LearnedFeatureWise`."""

    name: ClassVar[str] = "tpn+lft"
