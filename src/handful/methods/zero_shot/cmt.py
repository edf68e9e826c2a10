"""CMT: a small network that maps images to descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from handful.methods.zero_shot.base import Candidates, State, Training, ZeroShotMethod
from handful.methods.zero_shot.gradient import descend, start


@dataclass(frozen=True, kw_only=True)
class CMT(ZeroShotMethod):
    """CMT (Socher et al., "Zero-shot learning through cross-modal transfer", NIPS 2013), without novelty detection.

    A two-layer network takes an image to its class's description, |s_y - T2 tanh(T1 x)|^2, and the nearest candidate
    description is the answer; scores are minus the squared distances.

    Parameters
    ----------
    hidden
        Units of the hidden layer, chosen on validation classes.
    """

    hidden: int = 128
    epochs: int = 40
    batch: int = 128
    rate: float = 1e-3
    weight_decay: float = 0.0

    name: ClassVar[str] = "cmt"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"hidden": (64, 256), "epochs": (10, 40)}

    def learn(self, data: Training) -> State:
        first = start(data.x.shape[1], self.hidden, like=data.x, seed=self.seed, scale=1.0)
        second = start(self.hidden, data.s.shape[1], like=data.x, seed=self.seed + 1)

        def loss(rows: Tensor, generator: torch.Generator) -> Tensor:
            return (data.s[data.y[rows]] - mapped(data.x[rows], first, second)).square().sum(1).mean()

        descend(
            self.name,
            [first, second],
            loss,
            len(data.x),
            epochs=self.epochs,
            batch=self.batch,
            rate=self.rate,
            weight_decay=self.weight_decay,
            seed=self.seed,
        )
        return {"T1": first.detach(), "T2": second.detach()}

    def score(self, state: State, prepared: Candidates, x: Tensor) -> Tensor:
        guess, s = mapped(x, state["T1"], state["T2"]), prepared.s
        return 2 * guess @ s.T - guess.square().sum(1, keepdim=True) - s.square().sum(1)


def mapped(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """T2 tanh(T1 x), rows being images."""
    return torch.tanh(x @ first) @ second
