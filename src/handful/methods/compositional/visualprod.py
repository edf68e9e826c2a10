"""VisualProd: two independent classifiers, their probabilities multiplied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.compositional.lifted import counts_of, join, sides
from handful.methods.compositional.per_task import (
    Noise,
    Params,
    PerTask,
    add_mlp,
    closed,
    cross_entropy,
    mlp,
    supports,
)
from handful.methods.compositional.refined_protonet import two_layers


@dataclass(frozen=True, kw_only=True)
class VisualProd(PerTask):
    """VisualProd (Nagarajan & Grauman, "Attributes as operators", ECCV 2018; Misra et al., CVPR 2017).

    Two classifiers of two linear layers, one a primitive: P(i, j | x) = P₁(i | x) P₂(j | x), cross-entropy + cross-entropy.
    The same kind of classifier over the training primitives trains the backbone.

    Parameters
    ----------
    hidden
        Units between the two layers (RLCL gives no number).
    """

    hidden: int = 512

    name: ClassVar[str] = "visualprod"

    @property
    def weights(self) -> int:
        return 2 * 512 * self.hidden

    def extras(self, backbone: nn.Module, n_classes: Any) -> dict[str, nn.Module]:
        width: int = backbone.width  # type: ignore[assignment]
        return {f"axis{i}": two_layers(width, self.hidden, n) for i, n in enumerate(counts_of(n_classes))}

    def start(self, b: Batch, c: Any) -> Params:
        noise, params, n = Noise(b), {}, sides(b)  # type: ignore[var-annotated]
        for axis in range(2):
            add_mlp(noise, f"axis{axis}", b.s.shape[-1], self.hidden, n[:, axis].tolist(), params)
        return params

    def losses(self, p: Params, b: Batch, c: Any) -> Tensor:
        first, second, used = supports(b)
        n = sides(b)
        losses = [
            cross_entropy(closed(mlp(p, f"axis{i}", b.s), n[:, i]), y, used) for i, y in enumerate((first, second))
        ]
        return losses[0] + losses[1]

    def scores(self, p: Params, b: Batch, c: Any) -> Tensor:
        n = sides(b)
        logits = [closed(mlp(p, f"axis{i}", b.q), n[:, i]) for i in range(2)]
        return join(b, F.log_softmax(logits[0], -1), F.log_softmax(logits[1], -1))
