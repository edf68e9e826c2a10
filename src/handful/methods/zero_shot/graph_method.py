"""What the graph methods share: descriptions of nodes become classifiers by propagation over the hierarchy."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from handful.errors import BadInput
from handful.methods.zero_shot.base import ZeroShotMethod
from handful.methods.zero_shot.data import Candidates, ClassGraph, State, Training
from handful.methods.zero_shot.gradient import adam
from handful.methods.zero_shot.linear import training_classifier
from handful.methods.zero_shot.propagation import GraphNet
from handful.progress import bar


@dataclass(frozen=True, kw_only=True)
class GraphMethod(ZeroShotMethod):
    """Base: node descriptions are propagated into classifiers, regressed on those of the training classes.

    The targets are weight and bias of a softmax regression on the training images, on the unit sphere; the loss is half
    the squared distance to them, averaged over the training nodes. The classifiers of ALL nodes are kept, so one fitted
    learner serves every test split of the hierarchy; a query's score is [x, 1]' w.

    Parameters
    ----------
    hidden
        Widths of the hidden layers.
    epochs, rate, weight_decay, dropout
        Adam 1e-3, weight decay 5e-4, dropout 0.5 and 3000 epochs, as published. With validation classes the weight
        decay and the number of epochs are chosen; all epochs come from one training, stopped on the way.
    decay, steps
        Of the softmax regression.
    """

    hidden: tuple[int, ...] = (2048,)
    epochs: int = 3000
    rate: float = 1e-3
    weight_decay: float = 5e-4
    dropout: float = 0.5
    decay: float = 1e-4
    steps: int = 100
    sharpness: float = 10.0

    needs_graph: ClassVar[bool] = True
    has_bias: ClassVar[bool] = True
    dropped_layers: ClassVar[int | None] = None
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"weight_decay": (5e-5, 5e-4), "epochs": (300, 1000, 3000)}

    def sets(self, graph: ClassGraph) -> list[list[Tensor]]:
        """Adjacencies of each layer, repeated in turn."""
        raise NotImplementedError

    def learn(self, data: Training) -> State:
        graph, places = data.graph, data.places
        if graph is None or places is None:
            raise BadInput(f"{self.name} needs the classes' hierarchy; give semantics with one")
        key = dataclasses.replace(self, epochs=0, tune=False)
        if key not in data.memo or data.memo[key].done > self.epochs:
            weight, bias = training_classifier(data, self.sharpness, self.decay, self.steps, bias=True)
            target = F.normalize(torch.cat([weight * self.sharpness, bias[:, None]], dim=1), dim=1)
            data.memo[key] = _GraphProgress(self, graph, places, target)
        return {"classifiers": data.memo[key].at(self.epochs)}

    def prepare(self, state: State, candidates: Candidates) -> Tensor:
        assert candidates.places is not None
        return state["classifiers"][candidates.places]

    def score(self, state: State, prepared: Tensor, x: Tensor) -> Tensor:
        return x @ prepared[:, :-1].T + prepared[:, -1]


class _GraphProgress:
    """A training that can go on from where it stopped, to the same weights as one that never did."""

    def __init__(self, method: GraphMethod, graph: ClassGraph, places: Tensor, target: Tensor):
        self.name, self.target = method.name, target
        self.nodes = F.normalize(graph.nodes, dim=1)
        widths = [self.nodes.shape[1], *method.hidden, target.shape[1]]
        start = torch.Generator().manual_seed(method.seed)
        net = GraphNet(
            widths, method.sets(graph), method.dropout, start, bias=method.has_bias, dropped=method.dropped_layers
        )
        self.net = net.to(self.nodes.device)
        self.field = self.net.field(places)
        self.drop = torch.Generator(self.nodes.device).manual_seed(method.seed)
        self.optimiser = adam(self.net.parameters(), method.rate, method.weight_decay)
        self.done = 0

    def at(self, epochs: int) -> Tensor:
        """Classifiers of all nodes after so many epochs."""
        with bar(f"training {self.name}", epochs, self.done) as advance:
            for epoch in range(self.done, epochs):
                self.optimiser.zero_grad(set_to_none=True)
                loss = (self.net(self.nodes, self.field, self.drop) - self.target).square().sum(1).mean() / 2
                loss.backward()  # type: ignore[no-untyped-call]
                self.optimiser.step()
                if epoch % 100 == 0 and not bool(torch.isfinite(loss)):
                    raise BadInput(f"the loss of {self.name} is {float(loss)} after epoch {epoch + 1}; lower its rate")
                advance(1)
        self.done = max(self.done, epochs)
        with torch.no_grad():
            return self.net(self.nodes)
