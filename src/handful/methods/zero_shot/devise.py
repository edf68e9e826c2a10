"""DeViSE: a linear map into the descriptions' space, trained to rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from handful.methods.zero_shot.base import Candidates, State, Training, ZeroShotMethod
from handful.methods.zero_shot.gradient import descend, start


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
    epochs, batch, rate, weight_decay
        Adam, chosen here; the paper trains with Adagrad on its own features.
    """

    margin: float = 0.1
    scores: Literal["linear", "sigmoid"] = "linear"
    epochs: int = 20
    batch: int = 128
    rate: float = 1e-3
    weight_decay: float = 0.0

    name: ClassVar[str] = "devise"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"margin": (0.1, 0.5), "epochs": (5, 20)}

    def learn(self, data: Training) -> State:
        m = start(data.x.shape[1], data.s.shape[1], like=data.x, seed=self.seed)

        def loss(rows: Tensor, generator: torch.Generator) -> Tensor:
            return ranking_loss(data.x[rows] @ m @ data.s.T, data.y[rows], self.margin, self.scores).mean()

        descend(
            self.name,
            [m],
            loss,
            len(data.x),
            epochs=self.epochs,
            batch=self.batch,
            rate=self.rate,
            weight_decay=self.weight_decay,
            seed=self.seed,
        )
        return {"M": m.detach()}

    def score(self, state: State, prepared: Candidates, x: Tensor) -> Tensor:
        return x @ state["M"] @ prepared.s.T


def ranking_loss(scores: Tensor, y: Tensor, margin: float, kind: str = "linear") -> Tensor:
    """Per image, the hinge of every wrong class against the right one, summed."""
    if kind == "sigmoid":
        scores = torch.sigmoid(scores)
    own = scores.gather(1, y[:, None])
    hinge = (margin - own + scores).clamp_min(0)
    return hinge.sum(1) - hinge.gather(1, y[:, None])[:, 0]
