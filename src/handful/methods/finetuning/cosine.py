"""Cosine: a cosine classifier on pre-trained features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from handful.methods.finetuning.linear import Linear


@dataclass(frozen=True, kw_only=True)
class Cosine(Linear):
    """The fine-tuning baseline "Cosine" of Yue et al., NeurIPS 2020: as `Linear`, with scores 10 · cos(w, f(x))."""

    rate: float = 0.1

    name: ClassVar[str] = "cosine"
    scale: ClassVar[float | None] = 10.0
