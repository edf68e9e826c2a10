"""LATEM: several bilinear maps, the best of which counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from handful.methods.zero_shot.base import Candidates, State, Training, ZeroShotMethod
from handful.methods.zero_shot.gradient import descend, start


@dataclass(frozen=True, kw_only=True)
class LATEM(ZeroShotMethod):
    """LATEM (Xian et al., "Latent embeddings for zero-shot classification", CVPR 2016).

    Piecewise-linear compatibility F(x, s) = max_i x' W_i s with K latent maps; for an image and one random wrong class
    the hinge max(0, 1 + F(x, s_j) - F(x, s_y)) is descended, so that only the maps that won are moved.

    Parameters
    ----------
    maps
        K; the paper chooses among 2, 4, 6, 8, 10 on validation classes.
    epochs, batch, rate
        The paper uses plain SGD, one image a step; here Adam in batches.
    """

    maps: int = 4
    margin: float = 1.0
    epochs: int = 30
    batch: int = 128
    rate: float = 1e-3

    name: ClassVar[str] = "latem"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"maps": (2, 4, 8), "epochs": (10, 30)}

    def learn(self, data: Training) -> State:
        w = start(self.maps, data.x.shape[1], data.s.shape[1], like=data.x, seed=self.seed)
        others = data.n_classes - 1

        def loss(rows: Tensor, generator: torch.Generator) -> Tensor:
            y = data.y[rows]
            step = torch.randint(0, max(others, 1), (len(rows),), generator=generator).to(y.device)
            wrong = (y + 1 + step) % data.n_classes
            return latent_loss(w, data.x[rows], data.s[y], data.s[wrong], self.margin).mean()

        descend(self.name, [w], loss, len(data.x), epochs=self.epochs, batch=self.batch, rate=self.rate, seed=self.seed)
        return {"W": w.detach()}

    def score(self, state: State, prepared: Candidates, x: Tensor) -> Tensor:
        best = x @ state["W"][0] @ prepared.s.T
        for w in state["W"][1:]:
            best = torch.maximum(best, x @ w @ prepared.s.T)
        return best


def latent_loss(w: Tensor, x: Tensor, right: Tensor, wrong: Tensor, margin: float) -> Tensor:
    """Per image, the hinge between a wrong and the right description, each by its best map."""
    projected = torch.einsum("qd,kda->kqa", x, w)
    own = (projected * right).sum(2).amax(0)
    other = (projected * wrong).sum(2).amax(0)
    return (margin + other - own).clamp_min(0)
