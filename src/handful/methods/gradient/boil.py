"""BOIL: the inner loop changes the body alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from handful.methods.gradient.maml import MAML


@dataclass(frozen=True, kw_only=True)
class BOIL(MAML):
    """Body only update in inner loop (Oh, Yoo, Kim, Yun, "BOIL: towards representation change for few-shot learning",
    ICLR 2021).

    As MAML, but the last layer keeps its meta-learned weights in the inner loop: a task can only be learned by changing
    the features, θ_body' = θ_body - α ∇L_support(θ_body). The outer loop learns body and last layer.

    Parameters
    ----------
    inner_rate, inner_steps
        Paper and public code take one step of 0.5 with Conv-4; here MAML's defaults, five steps of 0.1.
    """

    name: ClassVar[str] = "boil"

    def adapted(self, names: list[str]) -> list[str]:
        return [name for name in names if not name.startswith("last.")]
