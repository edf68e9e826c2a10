"""PUTM: prototypes moved by conditional transport between them and the queries."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.batch import Batch
from handful.methods.layers.masks import asked
from handful.methods.layers.precise import precise
from handful.methods.layers.pretrained import Pretrained


class Navigators:
    """One small network a task: from the squared differences of a query and a prototype to how far apart they are.

    Every task's weights are drawn from its own seed (Xavier's normal, biases 0) and learned by Adam, for that task alone.
    """

    def __init__(self, width: int, hidden: int, seeds: list[int], like: Tensor, rate: float):
        sizes = (width, hidden, max(1, hidden // 2), 1)
        generators = [torch.Generator().manual_seed(int(seed)) for seed in seeds]
        self.layers: list[tuple[Tensor, Tensor]] = []
        for a, b in pairwise(sizes):
            spread = (2 / (a + b)) ** 0.5
            weight = torch.stack([spread * torch.randn(a, b, generator=g) for g in generators]).to(like)
            bias = torch.zeros(len(seeds), 1, b).to(like)
            self.layers.append((weight.requires_grad_(), bias.requires_grad_()))
        self.optimiser = torch.optim.Adam([p for layer in self.layers for p in layer], lr=rate, betas=(0.5, 0.99))

    def distances(self, x: Tensor) -> Tensor:
        """``(T, n, width)`` to ``(T, n)``."""
        for i, (weight, bias) in enumerate(self.layers):
            x = torch.baddbmm(bias, x, weight)
            if i + 1 < len(self.layers):
                x = F.leaky_relu(x)
        return x[..., 0]


@dataclass(frozen=True, kw_only=True)
class PUTM(Pretrained):
    """PUTM (Tian, Feng, Chai, Chen, Wang, Liu, Chen, "Prototypes-oriented transductive few-shot learning with conditional transport", ICCV 2023).

    Features are raised to a power and brought to unit length. Two navigators say where mass goes between queries x_i and
    prototypes μ_c: forward π(c | i) = softmax_c(-d_ψ), backward π(i | c) = softmax_i(-d_ψ), with d_ψ a network of (x_i - μ_c)².
    The task learns ψ by the cost of conditional transport, ρ mean_i Σ_c π(c | i) |x_i - μ_c|² + (1 - ρ) mean_c Σ_i π(i | c)
    |x_i - μ_c|², which assumes no share of the classes among the queries; then each prototype moves towards the mean of
    its support and of the queries by π(c | i), μ_c ← μ_c + α (m_c - μ_c). Both alternate. Logits are log π(c | i).

    Parameters
    ----------
    power, balance, hidden, rate
        0.6, ρ = 0.5, 128 and 64 hidden units, Adam at 0.001 with momenta 0.5 and 0.99, as in the public code for queries
        of unequal numbers (ρ = 1 for equal ones).
    iterations, inner_steps
        50 rounds of 30 steps of ψ, as there: some seconds per task on one core.
    step
        α; below 0 (the default) as there: 0.2 for one shot, 0.1 for more.

    Notes
    -----
    Transductive. The backbone is pre-trained by classification, as the published features were. The public code first
    replaces features by their QR coordinates, which keeps distances but lets the network see an order of the images; here
    it sees the features. Its weak pull towards equal shares in the balanced setting (weight 0.001) is left out.
    """

    power: float = 0.6
    balance: float = 0.5
    hidden: int = 128
    rate: float = 1e-3
    iterations: int = 50
    inner_steps: int = 30
    step: float = -1.0

    name: ClassVar[str] = "putm"
    tunes: ClassVar[bool] = True
    transductive: ClassVar[bool] = True
    together: ClassVar[int] = 16

    def __post_init__(self) -> None:
        if not 0 <= self.balance <= 1 or self.inner_steps < 1 or self.iterations < 0 or self.hidden < 1:
            raise BadInput(
                "putm needs balance in [0, 1], hidden and inner_steps of at least 1 and iterations of at least 0"
            )

    def step_of(self, b: Batch) -> Tensor:
        """α of each task ``(T, 1, 1)``."""
        if self.step >= 0:
            return b.s.new_full((len(b.s), 1, 1), self.step)
        one = b.one_hot.sum(1).amax(1) <= 1
        return torch.where(one, 0.2, 0.1).to(b.s)[:, None, None]

    def prepared(self, x: Tensor) -> Tensor:
        """Features to the power, with their sign, and of unit length."""
        return F.normalize(torch.sign(x + 1e-6) * (x.abs() + 1e-6) ** self.power, dim=-1)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        # Adam turns a rounding error in a vanishing gradient into a whole step, so double precision is needed.
        exact = precise(b.s)
        s, q = self.prepared(b.s.to(exact)), self.prepared(b.q.to(exact))
        here, alpha, hot = asked(b), self.step_of(b).to(exact), b.one_hot.to(exact)
        fixed, counts = hot.transpose(1, 2) @ s, hot.sum(1)
        means = fixed / counts.clamp_min(1)[..., None]
        with torch.enable_grad():
            navigators = Navigators(q.shape[-1], self.hidden, list(b.seeds), q, self.rate)
            forward = self.transport(navigators, q.detach(), means.detach(), here, b.absent)
            for _ in range(self.iterations):
                share = forward.exp() * here[..., None]
                target = (fixed + share.transpose(1, 2) @ q) / (counts + share.sum(1)).clamp_min(1e-12)[..., None]
                means = means + alpha * (target - means)
                forward = self.transport(navigators, q.detach(), means.detach(), here, b.absent)
        return b.close(forward.to(b.s.dtype))

    def transport(self, navigators: Navigators, q: Tensor, means: Tensor, here: Tensor, absent: Tensor) -> Tensor:
        """Learn the navigators for these prototypes; log π(c | i) ``(T, Q, C)`` of their last step."""
        squares = (q[:, :, None] - means[:, None]).square()
        cost, pairs = squares.sum(-1), squares.flatten(1, 2)
        forward = cost
        for _ in range(self.inner_steps):
            d = -navigators.distances(pairs).view_as(cost)
            forward, backward = navigate(d, here, absent)
            losses = transport_cost(cost, forward.exp(), backward.exp(), here, absent, self.balance)
            navigators.optimiser.zero_grad()
            losses.sum().backward()
            navigators.optimiser.step()
        return forward.detach()


def navigate(scores: Tensor, here: Tensor, absent: Tensor) -> tuple[Tensor, Tensor]:
    """log π(c | i) over a query's classes and log π(i | c) over a class's queries, both ``(T, Q, C)``."""
    forward = torch.log_softmax(scores.masked_fill(absent[:, None], -1e9), 2)
    backward = torch.log_softmax(scores.masked_fill(~here[..., None], -1e9), 1)
    return forward, backward


def transport_cost(cost: Tensor, forward: Tensor, backward: Tensor, here: Tensor, absent: Tensor, rho: float) -> Tensor:
    """Conditional transport of each task (Zheng & Zhou, NeurIPS 2021): ρ times the forward cost plus 1 - ρ the backward."""
    real = here[..., None] & ~absent[:, None]
    cost = cost.masked_fill(~real, 0.0)
    there = (cost * forward).sum((1, 2)) / here.sum(1)
    back = (cost * backward).sum((1, 2)) / (~absent).sum(1)
    return rho * there + (1 - rho) * back
