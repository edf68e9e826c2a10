"""ANIL: almost no inner loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from handful.methods.gradient.maml import MAML, GradientLearner, State
from handful.nets.compute import Compute


@dataclass(frozen=True, kw_only=True)
class ANIL(MAML):
    """ANIL (Raghu, Raghu, Bengio, Vinyals, "Rapid learning or feature reuse?", ICLR 2020).

    MAML whose inner loop changes the last layer alone, in training and at test: θ_last' = θ_last - α ∇L_support. The
    outer gradient still trains the whole network through the inner steps. Defaults as MAML's here; with Conv-4 an
    ``inner_rate`` of 0.01 to 0.03 is wanted from 32x32 images on (0.01 and five steps on miniImageNet in the paper).

    Notes
    -----
    The backbone does not change in the inner loop, so a support is embedded once however many steps follow.
    """

    name: ClassVar[str] = "anil"

    def adapted(self, names: list[str]) -> list[str]:
        return [name for name in names if name.startswith("last")]

    def untrained(self, shape: tuple[int, ...], n_classes: int = 2, compute: Compute | None = None) -> GradientLearner:
        plain = super().untrained(shape, n_classes, compute)
        return LastLayerLearner(self, plain.modules, plain.shape, plain.compute)


class LastLayerLearner(GradientLearner):
    """Adapts on features that are computed once."""

    def adapt(self, params: State, x: Tensor, y: Tensor, steps: int, keep_graph: bool) -> State:
        with torch.set_grad_enabled(keep_graph):
            features = self.features(params, x)
        chosen = self.method.adapted(list(params))
        for _ in range(steps):
            loss = F.cross_entropy(self.classify(params, features), y)
            grads = torch.autograd.grad(loss, [params[k] for k in chosen], create_graph=keep_graph)
            if not keep_graph:
                grads = tuple(g.detach() for g in grads)
            params = params | {k: params[k] - self.method.inner_rate * g for k, g in zip(chosen, grads, strict=True)}
        return params
