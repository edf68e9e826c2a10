"""LATEM: several bilinear maps, the best of which counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from handful.errors import BadInput
from handful.methods.zero_shot.base import ZeroShotMethod
from handful.methods.zero_shot.data import Candidates, State, Training
from handful.methods.zero_shot.gradient import Descent, descended, start
from handful.progress import bar

PRUNE_AFTER = 5
"""Epochs after which the paper prunes."""


@dataclass(frozen=True, kw_only=True)
class LATEM(ZeroShotMethod):
    """LATEM (Xian et al., "Latent embeddings for zero-shot classification", CVPR 2016).

    Piecewise-linear compatibility F(x, s) = max_i x' W_i s with K latent maps; for an image and one random wrong class
    the hinge max(0, 1 + F(x, s_j) - F(x, s_y)) is descended, so that only the maps that won are moved.

    Parameters
    ----------
    maps
        K; the paper chooses among 2, 4, 6, 8, 10 on validation classes. One map is tried too, so that two is no edge.
    steps_by
        ``batches``: Adam on the mean loss of ``batch`` images. ``samples``: the published algorithm, plain gradient
        descent one image per step, which moves only the two maps that won.
    epochs, batch, rate
        Chosen here for batches; the paper's steps have a constant rate, which it does not give.
    prune
        The paper's other way to choose K, for ``steps_by=samples``: after five epochs the maps that were the best of their
        image's own class for less than this share of the images so far are dropped. It begins with 16 maps and takes 0.05;
        0, the default, keeps all.
    """

    maps: int = 4
    margin: float = 1.0
    steps_by: Literal["batches", "samples"] = "batches"
    epochs: int = 100
    batch: int = 128
    rate: float = 1e-3
    prune: float = field(default=0.0, metadata={"later": True})

    name: ClassVar[str] = "latem"
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"maps": (1, 2, 4, 8), "epochs": (10, 30, 100)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.prune < 1:
            raise BadInput(f"latem prunes maps below a share of the images from 0 to 1, not {self.prune:g}")
        if self.prune and self.steps_by != "samples":
            raise BadInput("latem prunes in its published algorithm alone; set steps_by=samples, or prune=0")

    def learn(self, data: Training) -> State:
        if self.steps_by == "samples":
            return {"W": self._one_by_one(data, self._start(data).detach())}
        return {"W": descended(self, data, lambda: self._begin(data))[0]}

    def _start(self, data: Training) -> Tensor:
        return start(self.maps, data.x.shape[1], data.s.shape[1], like=data.x, seed=self.seed)

    def _begin(self, data: Training) -> Descent:
        w = self._start(data)
        others = data.n_classes - 1

        def loss(rows: Tensor, generator: torch.Generator) -> Tensor:
            y = data.y[rows]
            step = torch.randint(0, max(others, 1), (len(rows),), generator=generator).to(y.device)
            wrong = (y + 1 + step) % data.n_classes
            return latent_loss(w, data.x[rows], data.s[y], data.s[wrong], self.margin).mean()

        return Descent(self, [w], loss, len(data.x))

    def _one_by_one(self, data: Training, w: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed)
        n, classes = len(data.x), data.n_classes
        won = [0] * len(w)
        with bar(f"training {self.name}", self.epochs) as advance:
            for epoch in range(self.epochs):
                order = torch.randperm(n, generator=generator)
                right = data.y[order]
                wrong = (
                    right + torch.randint(1, max(classes, 2), (n,), generator=generator).to(right.device)
                ) % classes
                for x, s, other in zip(data.x[order], data.s[right], data.s[wrong], strict=True):
                    won[sample_step(w, x, s, other, self.margin, self.rate)] += 1
                if self.prune and epoch + 1 == PRUNE_AFTER:
                    least = min(self.prune * n * PRUNE_AFTER, max(won))
                    w = w[[i for i, times in enumerate(won) if times >= least]]
                advance(1)
        return w

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


def sample_step(w: Tensor, x: Tensor, right: Tensor, wrong: Tensor, margin: float, rate: float) -> int:
    """One step of the published algorithm, in place: away from the wrong description, towards the right one; which map was
    the right one's best."""
    projected = torch.einsum("d,kda->ka", x, w)
    own, other = projected @ right, projected @ wrong
    i, j = int(other.argmax()), int(own.argmax())
    if float(other[i]) + margin > float(own[j]):
        w[i].addr_(x, wrong, alpha=-rate)
        w[j].addr_(x, right, alpha=rate)
    return j
