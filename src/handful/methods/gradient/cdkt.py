"""CDKT: Gaussian processes on deep features with a logistic-softmax likelihood, solved by mean-field steps."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.batch import Batch
from handful.methods.embedded import Embedded
from handful.methods.layers.graph import MaskedNorm
from handful.methods.layers.masks import asked


class Kernel(nn.Module):
    """The scale of the cosine kernel, shared by the classes."""

    def __init__(self, scale: float):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(float(scale)).log())


@dataclass(frozen=True, kw_only=True)
class CDKT(Embedded):
    """CDKT (Ke, Cao, Ling, Zhou, "Revisiting logistic-softmax likelihood in Bayesian
    meta-learning for few-shot classification", NeurIPS 2023), trained by the evidence bound (CDKT + ML).

    Each class has a Gaussian process f_c over the features with kernel scale · cos; p(y=c | f) = σ(f_c/τ) / Σ_k σ(f_k/τ).
    Gamma, Poisson and Pólya-Gamma variables make the model conjugate, and q(f_c) = N(μ_c, Σ_c) is found by closed-form
    steps (Eq. 4.4 of the paper; `mean_field`). Queries are answered by the mean of the likelihood over q(f).

    Parameters
    ----------
    temperature
        τ; 1 is the public code's default, 0.2 here, where random features otherwise give nearly flat answers.
    scale
        Where the kernel's scale starts.
    steps, test_steps
        Mean-field steps in training and at test; 2 and 30 as in the public code.
    samples
        Draws of f for an answer, from the task's own seed, the same for all its queries.

    Notes
    -----
    Features pass a batch norm before the cosine, as in the public code: cosines of features that a ReLU left are otherwise
    nearly equal, and the bound can then be raised by forgetting the classes. The public code gives each class its own kernel
    scale, which ties it to one number of ways; here they share it. Its bound counts the mean of the Gamma variable once
    as α and once as α / C; here both are α, with which every mean-field step raises the bound, as it must.
    """

    temperature: float = 0.2
    scale: float = 1.0
    steps: int = 2
    test_steps: int = 30
    samples: int = 100

    name: ClassVar[str] = "cdkt+ml"
    tunes: ClassVar[bool] = True
    together: ClassVar[int] = 16

    def __post_init__(self) -> None:
        if self.temperature <= 0 or self.scale <= 0 or min(self.steps, self.test_steps, self.samples) < 1:
            raise BadInput(f"{self.name}: temperature and scale must be above 0, steps and samples at least 1")

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {"kernel": Kernel(self.scale), "norm": MaskedNorm(backbone.width)}  # type: ignore[arg-type]

    def directions(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        """Unit features of support and queries ``(T, S + Q, d)`` after the batch norm."""
        here = torch.cat([b.s_mask, asked(b)], 1)
        return F.normalize(m["norm"](torch.cat([b.s, b.q], 1), here), dim=-1)

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        return self.answers(m, b, self.test_steps)

    def answers(self, m: nn.ModuleDict, b: Batch, steps: int) -> Tensor:
        """Log of the mean likelihood ``(T, Q, C)``."""
        scale = m["kernel"].log_scale.exp()  # type: ignore[operator, union-attr]
        s, q = self.directions(m, b).split([b.s.shape[1], b.q.shape[1]], 1)
        s = s * (b.y >= 0)[..., None]
        found = mean_field(scale * s @ s.transpose(1, 2), b.one_hot, (b.y >= 0), ~b.absent, self.temperature, steps)
        across = scale * q @ s.transpose(1, 2)
        mean = torch.einsum("tqn,tcn->tqc", across, found.weights)
        # diag(k** - k* D½ B⁻¹ D½ k*ᵀ), through the Cholesky factor of B
        half = found.root[:, :, :, None] * across.transpose(1, 2)[:, None]
        solved = torch.linalg.solve_triangular(found.factor, half, upper=False)
        spread = (scale - solved.square().sum(2)).clamp_min(1e-8).sqrt().transpose(1, 2)
        noise = self.noise(b).to(mean)[:, :, None, :]
        f = (mean[:, None] + spread[:, None] * noise) / self.temperature
        logs = F.logsigmoid(f).masked_fill(b.absent[:, None, None, :], float("-inf"))
        return torch.log_softmax(logs, -1).logsumexp(1) - log(self.samples)

    def noise(self, b: Batch) -> Tensor:
        """``(T, samples, C)`` normal numbers, each task's from its own seed and free of the other tasks' sizes."""
        out = torch.zeros(len(b.seeds), self.samples, b.C)
        for t, (seed, n) in enumerate(zip(b.seeds, b.n.tolist(), strict=True)):
            out[t, :, :n] = torch.randn(self.samples, n, generator=torch.Generator().manual_seed(int(seed)))
        return out

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        """Minus the bound of support and queries together, a point."""
        scale = m["kernel"].log_scale.exp()  # type: ignore[operator, union-attr]
        y = torch.cat([b.y, labels], 1)
        x = self.directions(m, b) * (y >= 0)[..., None]
        hot = (y[..., None] == torch.arange(b.C, device=y.device)).to(x.dtype)
        found = mean_field(scale * x @ x.transpose(1, 2), hot, y >= 0, ~b.absent, self.temperature, self.steps)
        return -(found.bound / (y >= 0).sum(1)).mean()


@dataclass(frozen=True, kw_only=True)
class CDKTPL(CDKT):
    """CDKT trained by the predictive likelihood of the queries given the support (CDKT + PL)."""

    name: ClassVar[str] = "cdkt+pl"

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        return F.nll_loss(self.answers(m, b, self.steps).flatten(0, 1), labels.flatten(), ignore_index=-2)


@dataclass
class MeanField:
    """What the mean-field steps leave: K⁻¹μ ``(T, C, N)``, D½, the Cholesky factor of B = I + D½KD½, and the bound of
    each task after every step (the last as ``bound``)."""

    weights: Tensor
    root: Tensor
    factor: Tensor
    bounds: list[Tensor]

    @property
    def bound(self) -> Tensor:
        return self.bounds[-1]


def mean_field(
    kernel: Tensor, hot: Tensor, there: Tensor, classes: Tensor, temperature: float, steps: int
) -> MeanField:
    """Mean-field steps of the logistic-softmax Gaussian process.

    With f̃² = E[f²]/τ², γ the mean of the Poisson variables, α the shape of the Gamma one and ω the mean of the
    Pólya-Gamma ones: γ = e^{ψ(α) - μ/2τ} / (2C cosh f̃/2), α = 1 + Σ_c γ, ω = (y + γ) tanh(f̃/2) / 2f̃,
    Σ = (K⁻¹ + D)⁻¹ with D = ω/τ², μ = Σ (y - γ) / 2τ.

    Parameters
    ----------
    kernel, hot
        ``(T, N, N)``, zero at padding; one-hot labels ``(T, N, C)``.
    there, classes
        Which points ``(T, N)`` and classes ``(T, C)`` exist.

    Notes
    -----
    K is never inverted: K⁻¹Σ = I - D½B⁻¹D½K with B = I + D½KD½, whose eigenvalues are at least 1.
    """
    y = hot.transpose(1, 2)
    mask = (there[:, None, :] & classes[:, :, None]).to(kernel.dtype)
    ways = classes.sum(1).to(kernel.dtype)[:, None]
    points = there.to(kernel.dtype)
    k = kernel[:, None]
    eye = torch.eye(kernel.shape[-1], dtype=kernel.dtype, device=kernel.device)
    mu = torch.zeros_like(y)
    second = torch.diagonal(kernel, dim1=1, dim2=2)[:, None].expand_as(y)
    alpha = points + ways
    bounds: list[Tensor] = []
    for _ in range(steps):
        tilde = (second.clamp_min(1e-10)).sqrt() / temperature
        log_cosh = F.softplus(tilde) - tilde / 2 - log(2)  # log cosh(f̃/2)
        log_gamma = torch.digamma(alpha)[:, None] - mu / (2 * temperature) - log_cosh - log(2) - ways[..., None].log()
        gamma = log_gamma.exp() * mask
        alpha = gamma.sum(1) + 1
        omega = (y + gamma) * torch.tanh(tilde / 2) / (2 * tilde) * mask
        root = (omega / temperature**2).sqrt()
        factor = torch.linalg.cholesky(eye + root[..., :, None] * k * root[..., None, :])
        pull = (y - gamma) / (2 * temperature) * mask
        inner = torch.cholesky_solve((root * (k @ pull[..., None])[..., 0])[..., None], factor)[..., 0]
        weights = pull - root * inner
        mu = (k @ weights[..., None])[..., 0]
        solved = torch.linalg.solve_triangular(factor, root[..., :, None] * k, upper=False)
        variance = torch.diagonal(kernel, dim1=1, dim2=2)[:, None] - solved.square().sum(2)
        second = mu.square() + variance.clamp_min(0)
        inverse = torch.linalg.solve_triangular(factor, eye.expand_as(factor), upper=False)
        divergence = 0.5 * (
            inverse.square().sum((2, 3)) - kernel.shape[-1] + (weights * mu).sum(2)
            + 2 * torch.diagonal(factor, dim1=2, dim2=3).log().sum(2)
        )  # fmt: skip
        tilde = second.clamp_min(1e-10).sqrt() / temperature
        log_cosh = F.softplus(tilde) - tilde / 2 - log(2)
        known = (-(y + gamma) * (log(2) + log_cosh) + (y - gamma) * mu / (2 * temperature)) * mask
        safe = torch.where(gamma > 0, gamma, 1.0)
        expected = torch.digamma(alpha) - ways.log()
        counts = (gamma * (expected[:, None] - safe.log() + 1)).sum(1)
        shape = torch.lgamma(alpha) + (1 - alpha) * torch.digamma(alpha) - ways.log()
        bounds.append(known.sum((1, 2)) + ((counts + shape) * points).sum(1) - divergence.sum(1))
    return MeanField(weights, root, factor, bounds)
