"""DeViSE: a linear map into the descriptions' space, trained to rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from handful.methods.zero_shot.base import ZeroShotMethod
from handful.methods.zero_shot.data import Candidates, State, Training
from handful.methods.zero_shot.gradient import Descent, descended, start


@dataclass(frozen=True, kw_only=True)
class DeViSE(ZeroShotMethod):
    """DeViSE (Frome et al., "DeViSE: a deep visual-semantic embedding model", NIPS 2013).

    A bias-free linear map M takes features to descriptions; every wrong training class should score less than the right
    one by a margin:  sum_{j != y} max(0, margin - s_y' M x + s_j' M x).

    Parameters
    ----------
    margin, scores
        0.1 on the dot products, as in the paper; the public code of the generic-object benchmark passes scores through
        a sigmoid with a margin of 0.7 (``scores="sigmoid", margin=0.7``).
    negatives
        ``all`` wrong classes, as the loss is written, or the ``first`` that violates the margin in random order, as the
        paper trains.
    epochs, batch, rate, weight_decay
        Adam, chosen here; the paper trains with Adagrad on its own features.
    """

    margin: float = 0.1
    scores: Literal["linear", "sigmoid"] = "linear"
    negatives: Literal["all", "first"] = "all"
    epochs: int = 100
    batch: int = 128
    rate: float = 1e-3
    weight_decay: float = 0.0

    name: ClassVar[str] = "devise"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"margin": (0.1, 0.5), "epochs": (10, 30, 100, 300)}

    def learn(self, data: Training) -> State:
        return {"M": descended(self, data, lambda: self._begin(data))[0]}

    def _begin(self, data: Training) -> Descent:
        m = start(data.x.shape[1], data.s.shape[1], like=data.x, seed=self.seed)

        def loss(rows: Tensor, generator: torch.Generator) -> Tensor:
            hinges = ranking_hinges(data.x[rows] @ m @ data.s.T, data.y[rows], self.margin, self.scores)
            return (hinges.sum(1) if self.negatives == "all" else first_violation(hinges, generator)).mean()

        return Descent(self, [m], loss, len(data.x), self.weight_decay)

    def score(self, state: State, prepared: Candidates, x: Tensor) -> Tensor:
        return x @ state["M"] @ prepared.s.T


def ranking_hinges(scores: Tensor, y: Tensor, margin: float, kind: str = "linear") -> Tensor:
    """The hinge (images, classes) of every wrong class against the right one, zero at the right one."""
    if kind == "sigmoid":
        scores = torch.sigmoid(scores)
    hinge = (margin - scores.gather(1, y[:, None]) + scores).clamp_min(0)
    return hinge.scatter(1, y[:, None], 0.0)


def first_violation(hinges: Tensor, generator: torch.Generator) -> Tensor:
    """Per image, the hinge of one violating class, each equally likely; zero where none violates."""
    draw = torch.rand(hinges.shape, generator=generator).to(hinges.device)
    return hinges.gather(1, torch.where(hinges > 0, draw, -1.0).argmax(1, keepdim=True))[:, 0]
