"""MAML and first-order MAML."""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import grad, vmap

from handful.methods.augment import augment
from handful.methods.contract import Method, Predictor
from handful.methods.layers.support_norm import known_first, use_support_norm
from handful.methods.modules import ModuleLearner
from handful.methods.schedule import Schedule
from handful.methods.stages import Loss, Stage
from handful.methods.training import Drawn, step_generator
from handful.nets import build as build_net
from handful.nets.compute import Compute
from handful.nets.given import Net
from handful.nets.weights import load_state
from handful.tasks.episode import Query, Support
from handful.tasks.rule import Rule

State = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class MAML(Method):
    """Model-agnostic meta-learning (Finn, Abbeel, Levine, ICML 2017).

    The initial weights are learned so that a few gradient steps on the support, θ' = θ - α ∇L_support(θ), lower the loss
    on the query; the outer gradient passes through the inner steps.

    Parameters
    ----------
    inner_rate, inner_steps, test_steps
        α = 0.4 and one step on Omniglot, 0.01 and five (ten at test) on miniImageNet in the paper; here 0.1 and 5 (10) by
        default, which is between and suits small maps. Where features are long a step of 0.1 overshoots and raises the
        support's own loss: with Conv-4 and 84x84 images take 0.01, as published.
    first_order
        Drop the second derivatives (FO-MAML).
    ways
        Rows of the learned last layer. A task with fewer ways uses the first of them; one with more starts its further
        rows from their mean, so that any way can be asked.

    Notes
    -----
    Batch norm normalises the support by its own statistics in every inner step, and the query by the statistics of the
    support under the adapted weights (`SupportNorm`): no query sees another, in training as at test (the public code
    normalises queries by the queries' statistics, which is transductive). On CUDA tasks are adapted together with vmap; on the CPU one by one, which was
    measured faster there.
    """

    net: Net = "conv4"
    inner_rate: float = 0.1
    inner_steps: int = 5
    test_steps: int = 10
    ways: int = 5
    schedule: Schedule = field(default_factory=lambda: Schedule(tasks=4, clip=10.0))

    name: ClassVar[str] = "maml"
    tunes: ClassVar[bool] = True
    first_order: ClassVar[bool] = False

    def stages(self) -> list[Stage]:
        return [Stage("tasks", self.schedule, loss=self.loss_after_adapting)]

    def loss_after_adapting(self, learner: GradientLearner, train: Rule) -> Loss:
        drawn = Drawn(train, self.schedule)
        return lambda step: learner.outer_loss(drawn.tasks(step), step_generator(self.schedule, step))

    def untrained(self, shape: tuple[int, ...], n_classes: int = 2, compute: Compute | None = None) -> GradientLearner:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.schedule.seed)
            backbone = build_net(self.net, tuple(shape), self.schedule.seed)
            modules = nn.ModuleDict({"backbone": backbone, "last": nn.Linear(backbone.width, self.ways)})
        return GradientLearner(self, modules, tuple(shape), compute or Compute())

    def load(self, state: State, facts: dict[str, Any], compute: Compute, where: str) -> GradientLearner:
        learner = self.untrained(tuple(facts["shape"]), compute=compute)
        load_state(learner.modules, state, where)
        return learner

    def adapted(self, names: list[str]) -> list[str]:
        """Which parameters the inner loop changes; all of them in MAML."""
        return names


@dataclass(frozen=True, kw_only=True)
class FOMAML(MAML):
    """First-order MAML: the outer gradient is taken at the adapted weights, as if they did not depend on the initial ones."""

    name: ClassVar[str] = "fo-maml"
    first_order: ClassVar[bool] = True


class GradientLearner(ModuleLearner):
    """Learns a task by gradient steps from learned initial weights."""

    method: MAML

    def __init__(self, method: MAML, modules: nn.ModuleDict, shape: tuple[int, ...], compute: Compute):
        use_support_norm(modules["backbone"])
        super().__init__(method, modules, shape, None, compute)

    def twin(self) -> GradientLearner:
        return copy.deepcopy(self)

    def ways(self, support: Support) -> Any:
        """What `initial` needs to know of a task: its number of classes."""
        return support.n_classes

    def initial(self, ways: Any) -> State:
        """The weights a task starts from, the last layer cut or extended to its ways."""
        params = {f"backbone.{k}": v for k, v in self.modules["backbone"].named_parameters()}
        weight, bias = rows(self.modules["last"], ways)  # type: ignore[arg-type]
        return {**params, "last.weight": weight, "last.bias": bias}

    @functools.cached_property
    def places(self) -> list[tuple[dict[str, Any], str, str]]:
        """Where the backbone's parameters lie, and their names."""
        return [
            (module._parameters, key, ".".join(filter(None, ("backbone", path, key))))
            for path, module in self.modules["backbone"].named_modules()
            for key, parameter in module._parameters.items()
            if parameter is not None
        ]

    def features(self, params: State, x: Tensor) -> Tensor:
        """What the backbone makes of images under other parameters than its own; `functional_call` does this too, and takes a
        twentieth of a step to find the places each time."""
        own = [where[key] for where, key, _ in self.places]
        try:
            for where, key, name in self.places:
                where[key] = params[name]
            return self.modules["backbone"](x)
        finally:
            for (where, key, _), parameter in zip(self.places, own, strict=True):
                where[key] = parameter

    def classify(self, params: State, features: Tensor) -> Tensor:
        return F.linear(features, params["last.weight"], params["last.bias"])

    def logits(self, params: State, x: Tensor) -> Tensor:
        return self.classify(params, self.features(params, x))

    def adapt(self, params: State, x: Tensor, y: Tensor, steps: int, keep_graph: bool) -> State:
        """Inner loop on one support: plain autograd."""
        chosen = self.method.adapted(list(params))
        for _ in range(steps):
            loss = F.cross_entropy(self.logits(params, x), y)
            grads = torch.autograd.grad(loss, [params[k] for k in chosen], create_graph=keep_graph)
            if not keep_graph:
                grads = tuple(g.detach() for g in grads)
            params = params | {k: params[k] - self.method.inner_rate * g for k, g in zip(chosen, grads, strict=True)}
        return params

    def query_logits(self, params: State, support: Tensor, query: Tensor) -> Tensor:
        """Queries under the adapted weights, normalised by the support's statistics."""
        with known_first(self.modules["backbone"], len(support)):
            features = self.features(params, torch.cat([support, query]))
        return self.classify(params, features[len(support) :])

    def task_loss(self, x: Tensor, y: Tensor, q: Tensor, qy: Tensor, ways: Any) -> Tensor:
        params = self.adapt(self.initial(ways), x, y, self.method.inner_steps, not self.method.first_order)
        return F.cross_entropy(self.query_logits(params, x, q), qy)

    def outer_loss(self, tasks: list[Any], generator: torch.Generator) -> Tensor:
        """Mean query loss after adaptation over a meta-batch; vmapped on CUDA when the tasks have one shape."""
        device = self.compute.device
        data = []
        for t in tasks:
            both = torch.from_numpy(np.concatenate([t.support.images, t.query.images])).to(device)
            both = self.backbone.normalise(augment(both, self.method.schedule.augment, generator))
            n = len(t.support)
            data.append(
                (both[:n], _on(t.support.labels, device), both[n:], _on(t.labels, device), self.ways(t.support))
            )
        alike = len({(d[0].shape, d[2].shape, d[4]) for d in data}) == 1
        if torch.device(device).type == "cuda" and alike:
            x, y, q, qy = (torch.stack([d[i] for d in data]) for i in range(4))
            return self.vmapped_loss(x, y, q, qy, ways=data[0][4])
        return torch.stack([self.task_loss(*d) for d in data]).mean()

    def vmapped_loss(self, x: Tensor, y: Tensor, q: Tensor, qy: Tensor, ways: Any) -> Tensor:
        """The same loss with all tasks adapted in one tensor program.

        Under vmap the fused batch norm drops a term of its second derivative (finite differences side with the loop), so the
        support is named as the batch's first images, which makes `SupportNorm` write the normalisation out.
        """
        params = self.initial(ways)
        chosen = self.method.adapted(list(params))

        def one(x: Tensor, y: Tensor, q: Tensor, qy: Tensor) -> Tensor:
            own = params

            def inner(part: State, rest: State) -> Tensor:
                return F.cross_entropy(self.logits(rest | part, x), y)

            for _ in range(self.method.inner_steps):
                grads = grad(inner)({k: own[k] for k in chosen}, own)
                if self.method.first_order:
                    grads = {k: g.detach() for k, g in grads.items()}
                own = own | {k: own[k] - self.method.inner_rate * grads[k] for k in chosen}
            return F.cross_entropy(self.query_logits(own, x, q), qy)

        with known_first(self.modules["backbone"], x.shape[1]):
            return vmap(one, randomness="different")(x, y, q, qy).mean()

    def fit(self, support: Support) -> GradientPredictor:
        with self.compute.here() as device, torch.enable_grad():
            images = torch.from_numpy(np.array(support.images)).to(device)
            x = self.backbone.normalise(images)
            params = {k: v.detach().requires_grad_() for k, v in self.initial(self.ways(support)).items()}
            params = self.adapt(params, x, _on(support.labels, device), self.method.test_steps, False)
            return GradientPredictor(self, {k: v.detach() for k, v in params.items()}, x)


class GradientPredictor(Predictor):
    def __init__(self, learner: GradientLearner, params: State, support: Tensor):
        self.learner, self.params, self.support = learner, params, support

    def predict(self, query: Query) -> np.ndarray:
        # The support goes through the network with every batch of queries, so batches are large.
        learner, batch = self.learner, max(self.learner.compute.batch, 256)
        out = []
        with learner.compute.here() as device, torch.no_grad():
            for start in range(0, len(query), batch):
                images = torch.from_numpy(np.array(query.images[start : start + batch])).to(device)
                x = learner.backbone.normalise(images)
                out.append(learner.query_logits(self.params, self.support, x).float().cpu())
        return torch.cat(out).numpy()


def rows(last: nn.Linear, ways: int) -> tuple[Tensor, Tensor]:
    """The first ``ways`` rows of a last layer, further ones starting from the mean of those it has."""
    weight, bias, more = last.weight[:ways], last.bias[:ways], max(0, ways - len(last.bias))
    if more:
        weight = torch.cat([weight, last.weight.mean(0, keepdim=True).expand(more, -1)])
        bias = torch.cat([bias, last.bias.mean(0, keepdim=True).expand(more)])
    return weight, bias


def _on(labels: Any, device: Any) -> Tensor:
    return torch.as_tensor(np.asarray(labels), device=device)
