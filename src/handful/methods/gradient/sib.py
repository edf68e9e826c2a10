"""SIB: class weights refined on the unlabelled queries by learned (synthetic) gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.embedded import EmbeddedLearner
from handful.methods.layers.stages import Staged
from handful.methods.schedule import Schedule
from handful.nets.compute import Compute


class Synthetic(nn.Module):
    """Initial weights from the support, and the network ξ that stands for the gradient of the query loss."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.diagonal = nn.Parameter(torch.ones(width))
        self.scale = nn.Parameter(torch.tensor(10.0))
        self.bias = nn.Parameter(torch.zeros(()))
        self.slope = nn.Sequential(
            nn.Linear(6, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)
        )

    def scores(self, x: Tensor, theta: Tensor) -> Tensor:
        """Scaled cosines ``(T, n, C)``."""
        return self.scale * (x @ F.normalize(theta, dim=-1).transpose(1, 2) + self.bias)

    def gradient(self, scores: Tensor, absent: Tensor, there: Tensor) -> Tensor:
        """ξ: what stands for ∂loss/∂score, from a class's score among the others' and what the class gets in the whole task.

        ``there`` ``(T, n)`` is 1 at queries and 0 at padding.
        """
        gone = absent[:, None, :].expand_as(scores)
        p = torch.softmax(scores.masked_fill(gone, float("-inf")), -1)
        present = (~gone).to(scores.dtype)
        ways = present.sum(-1, keepdim=True)
        centred = scores - (scores * present).sum(-1, keepdim=True) / ways
        best = scores.masked_fill(gone, float("-inf")).amax(-1, keepdim=True)
        weight = there.to(scores.dtype)[..., None] / there.sum(1)[:, None, None].clamp_min(1)
        share = (p * weight).sum(1, keepdim=True) * ways  # 1 where a class gets as many queries as the others
        level = (centred * weight).sum(1, keepdim=True)
        facts = [centred, scores - best, p, p.square().sum(-1, keepdim=True).expand_as(p)]
        facts += [share.expand_as(p), level.expand_as(p)]
        return self.slope(torch.stack(facts, -1))[..., 0] * present


@dataclass(frozen=True, kw_only=True)
class SIB(Staged):
    """Synthetic information bottleneck (Hu, Moreno, Xiao, Shen, Obozinski, Lawrence, Damianou, "Empirical Bayes
    transductive meta-learning with synthetic gradients", ICLR 2020).

    The backbone is pre-trained and frozen. Class weights start at λ ⊙ (mean of the class's unit features) and take
    ``refine`` steps θ ← θ - η (∂ scores / ∂θ)ᵀ ξ(scores) on the queries: ξ, learned, stands for the gradient that the
    queries' labels would give. Transductive: a query's answer depends on the task's other queries.

    Parameters
    ----------
    refine, rate
        3 steps of 1e-3 in the public configuration. The gradient is summed over the queries.
    hidden
        Width of ξ.

    Notes
    -----
    Read in hushell/sib_meta_learn at 74ac5ed. The public ξ reads all of a query's scores at once, which ties it to one
    number of ways, and its two batch norms stay in training mode at test: they show it each score relative to the task's
    other queries. Here one small network is shared by the classes; it reads a class's score among the query's others, its
    distance to the best, its probability and the certainty, and, in place of the batch norms, the class's mean
    probability and mean score over the task's queries.
    """

    schedule: Schedule = field(default_factory=lambda: Schedule(steps=1000, rate=1e-3))
    refine: int = 3
    rate: float = 1e-3
    hidden: int = 40

    name: ClassVar[str] = "sib"
    tunes: ClassVar[bool] = True
    transductive: ClassVar[bool] = True
    second: ClassVar[tuple[str, ...]] = ("synthetic",)

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        width: int = backbone.width  # type: ignore[assignment]
        return {**super().extras(backbone, n_classes), "synthetic": Synthetic(width, self.hidden)}

    def load(self, state: dict[str, Tensor], facts: dict[str, Any], compute: Compute, where: str) -> EmbeddedLearner:
        """Networks of earlier versions read four facts: the two that came after them weigh nothing there."""
        first = "synthetic.slope.0.weight"
        state = {k: F.pad(v, (0, 6 - v.shape[1])) if k.endswith(first) else v for k, v in state.items()}
        return super().load(state, facts, compute, where)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        net: Synthetic = m["synthetic"]  # type: ignore[assignment]
        theta = net.diagonal * b.prototypes(F.normalize(b.s, dim=-1))
        q = F.normalize(b.q, dim=-1)
        there = torch.ones(q.shape[:2], device=q.device) if b.q_mask is None else b.q_mask
        q = q * there[..., None].to(q.dtype)
        for _ in range(self.refine):
            slope = net.gradient(net.scores(q, theta), b.absent, there)
            theta = theta - self.rate * pullback(slope, q, theta, net.scale)
        return b.close(net.scores(q, theta))


def pullback(slope: Tensor, q: Tensor, theta: Tensor, scale: Tensor) -> Tensor:
    """(∂ scores / ∂θ)ᵀ slope for scores = scale · q · θ / |θ|: the part of scale · slopeᵀ q / |θ| that is square to θ."""
    length = theta.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    unit = theta / length
    raw = scale * slope.transpose(1, 2) @ q / length
    return raw - (raw * unit).sum(-1, keepdim=True) * unit
