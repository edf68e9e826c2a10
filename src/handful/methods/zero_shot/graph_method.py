"""What the graph methods share: descriptions of nodes become classifiers by propagation over the hierarchy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from handful.errors import BadInput
from handful.methods.zero_shot.base import Candidates, Graph, State, Training, ZeroShotMethod
from handful.methods.zero_shot.linear import training_classifier
from handful.methods.zero_shot.propagation import GraphNet
from handful.progress import bar


@dataclass(frozen=True, kw_only=True)
class GraphMethod(ZeroShotMethod):
    """Base: node descriptions are propagated into classifiers, regressed on those of the training classes.

    The targets are weight and bias of a softmax regression on the training images, on the unit sphere; the loss is half
    the squared distance to them, averaged over the training nodes. The classifiers of ALL nodes are kept, so one fitted learner serves every
    test split of the hierarchy; a query's score is [x, 1]' w.

    Parameters
    ----------
    hidden
        Widths of the hidden layers.
    epochs, rate, weight_decay, dropout
        Adam 1e-3, weight decay 5e-4, dropout 0.5 and 3000 epochs, as published.
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

    def sets(self, graph: Graph) -> list[list[Tensor]]:
        """Adjacencies of each layer, repeated in turn."""
        raise NotImplementedError

    def learn(self, data: Training) -> State:
        graph, places = data.graph, data.places
        if graph is None or places is None:
            raise BadInput(f"{self.name} needs the classes' hierarchy; give semantics with one")
        weight, bias = training_classifier(data, self.sharpness, self.decay, self.steps, bias=True)
        target = F.normalize(torch.cat([weight * self.sharpness, bias[:, None]], dim=1), dim=1)
        nodes = F.normalize(graph.nodes, dim=1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            net = GraphNet([nodes.shape[1], *self.hidden, target.shape[1]], self.sets(graph), self.dropout)
            net.to(nodes.device).train()
            optimiser = torch.optim.Adam(net.parameters(), self.rate, weight_decay=self.weight_decay)
            with bar(f"training {self.name}", self.epochs) as advance:
                for _ in range(self.epochs):
                    optimiser.zero_grad(set_to_none=True)
                    loss = (net(nodes)[places] - target).square().sum(1).mean() / 2
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimiser.step()
                    advance(1)
        net.eval()
        with torch.no_grad():
            return {"classifiers": net(nodes)}

    def prepare(self, state: State, candidates: Candidates) -> Tensor:
        assert candidates.places is not None
        return state["classifiers"][candidates.places]

    def score(self, state: State, prepared: Tensor, x: Tensor) -> Tensor:
        return x @ prepared[:, :-1].T + prepared[:, -1]
