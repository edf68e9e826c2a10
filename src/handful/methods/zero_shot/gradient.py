"""The one loop of the zero-shot methods that learn by stochastic gradients."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from handful.errors import BadInput
from handful.methods.zero_shot.data import Training
from handful.progress import bar


class Descent:
    """Adam over shuffled batches of image numbers; ``loss`` gets them and a generator of its own.

    It can go on from where it stopped, to the same weights as one that never did.
    """

    def __init__(
        self,
        method: Any,
        parameters: Sequence[Tensor],
        loss: Callable[[Tensor, torch.Generator], Tensor],
        n: int,
        weight_decay: float = 0.0,
    ):
        self.name, self.batch, self.n = method.name, method.batch, n
        self.parameters, self.loss = list(parameters), loss
        self.optimiser = adam(parameters, method.rate, weight_decay)
        self.generator = torch.Generator().manual_seed(method.seed)
        self.done = 0

    def at(self, epochs: int) -> list[Tensor]:
        """The parameters after so many epochs."""
        device = self.parameters[0].device
        with bar(f"training {self.name}", epochs, self.done) as advance:
            for epoch in range(self.done, epochs):
                total = 0.0
                for rows in torch.randperm(self.n, generator=self.generator).split(self.batch):
                    self.optimiser.zero_grad(set_to_none=True)
                    value = self.loss(rows.to(device), self.generator)
                    value.backward()  # type: ignore[no-untyped-call]
                    self.optimiser.step()
                    total += float(value.detach())
                if not total < float("inf"):
                    raise BadInput(f"the loss of {self.name} is {total} after epoch {epoch + 1}; lower its rate")
                advance(1)
        self.done = max(self.done, epochs)
        return [p.detach().clone() for p in self.parameters]


def descended(method: Any, data: Training, begin: Callable[[], Descent]) -> list[Tensor]:
    """The parameters after the method's epochs; tries of a grid that differ in epochs alone share one training."""
    key = dataclasses.replace(method, epochs=0, tune=False)
    if key not in data.memo or data.memo[key].done > method.epochs:
        data.memo[key] = begin()
    found: list[Tensor] = data.memo[key].at(method.epochs)
    return found


def adam(parameters: Iterable[Tensor], rate: float, weight_decay: float = 0.0) -> torch.optim.Adam:
    """Adam in one pass over the weights, where the device has it: six times faster on wide layers."""
    learnt = list(parameters)
    fused = learnt[0].device.type in ("cpu", "cuda")
    return torch.optim.Adam(learnt, rate, weight_decay=weight_decay, fused=fused)


def start(*shape: int, like: Tensor, seed: int, scale: float | None = None) -> Tensor:
    """Normal initial weights with deviation ``scale`` (one over the root of the first size by default)."""
    generator = torch.Generator().manual_seed(seed)
    weight = torch.randn(*shape, generator=generator) * (scale if scale is not None else shape[-2] ** -0.5)
    return weight.to(like.device, like.dtype).requires_grad_()
