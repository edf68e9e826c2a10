"""Linear: a linear classifier on pre-trained features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.heads import fit_linear
from handful.methods.pieces.pretrained import Pretrained


@dataclass(frozen=True, kw_only=True)
class Linear(Pretrained):
    """The fine-tuning baseline "Linear" of Yue, Zhang, Sun, Hua ("Interventional few-shot learning", NeurIPS 2020).

    A linear classifier is trained on the whole support by gradient descent with momentum, the features frozen.

    Parameters
    ----------
    steps, rate, weight_decay
        100 steps of 0.01 with decay 0.001: the customary ones (Chen et al., ICLR 2019), the paper refers to them.
    """

    steps: int = 100
    rate: float = 0.01
    weight_decay: float = 0.001

    name: ClassVar[str] = "linear"
    scale: ClassVar[float | None] = None

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return fit_linear(b, steps=self.steps, rate=self.rate, weight_decay=self.weight_decay, scale=self.scale)
