"""CLIP-Adapter: a bottleneck on the image side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from handful.methods.adapters.base import Adapter, descend, sharpness, support_loss, unit
from handful.methods.batch import Batch


@dataclass(frozen=True, kw_only=True)
class ClipAdapter(Adapter):
    """CLIP-Adapter (Gao et al., "CLIP-Adapter: better vision-language models with feature adapters", IJCV 2024).

    x' = ratio · ReLU(B ReLU(A x)) + (1 - ratio) · x, with A to a quarter of the width and B back; the logits are
    sharpness · cos(x', t_c).

    Parameters
    ----------
    ratio
        Share of the adapter's output; 0.2 as in the public code.
    steps, rate
        Steps of Adam over the whole support, the rate falling by a cosine. The public code does not say its optimiser; 100 and
        0.001 are this library's.

    Notes
    -----
    Logits are those of gaopengcuhk/CLIP-Adapter at 08d07f8.
    """

    ratio: float = 0.2
    steps: int = 100
    rate: float = 0.001

    name: ClassVar[str] = "clip-adapter"
    together: ClassVar[int] = 8
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"ratio": (0.2, 0.4, 0.6, 0.8), "rate": (0.0001, 0.001)}

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        words = self.words(m, b)
        starts = self.start(b)
        found = descend(
            starts,
            lambda a, c: support_loss(b, self.logits(m, b.s, words, a, c)),
            lambda values: torch.optim.Adam(values, lr=self.rate),
            self.steps,
        )
        return b.close(self.logits(m, b.q, words, *found))

    def start(self, b: Batch) -> list[Tensor]:
        """Torch's own start of linear layers, uniform in ±1/√inputs, from each task's seed."""
        width = b.s.shape[-1]
        inner = max(1, width // 4)
        out: list[list[Tensor]] = [[], []]
        for seed in b.seeds:
            generator = torch.Generator().manual_seed(int(seed))
            for place, shape in zip(out, ((inner, width), (width, inner)), strict=True):
                place.append((2 * torch.rand(shape, generator=generator) - 1) * shape[1] ** -0.5)
        return [torch.stack(each).to(b.s) for each in out]

    def logits(self, m: nn.ModuleDict, x: Tensor, words: Tensor, first: Tensor, second: Tensor) -> Tensor:
        more = (x @ first.transpose(1, 2)).relu() @ second.transpose(1, 2)
        mixed = self.ratio * more.relu() + (1 - self.ratio) * x
        return sharpness(m) * unit(mixed) @ words.transpose(1, 2)
