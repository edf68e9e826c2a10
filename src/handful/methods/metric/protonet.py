"""Prototypical Networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.heads import cosine, squared_distances


@dataclass(frozen=True, kw_only=True)
class ProtoNet(Embedded):
    """Prototypical Networks (Snell, Swersky, Zemel, "Prototypical networks for few-shot learning", NIPS 2017).

    A class is the mean of its embedded support; a query's logits are minus its squared Euclidean distances to the means:
    p(y=k | x) ∝ exp(-|f(x) - c_k|² / temperature). ``distance="cosine"`` scores by 1 / temperature times the cosine.

    Parameters
    ----------
    temperature
        1 as published.
    """

    distance: Literal["euclidean", "cosine"] = "euclidean"
    temperature: float = 1.0

    name: ClassVar[str] = "protonet"

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        means = b.prototypes()
        if self.distance == "cosine":
            return b.close(cosine(b.q, means) / self.temperature)
        return b.close(-squared_distances(b.q, means) / self.temperature)
