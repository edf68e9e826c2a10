"""Versa: a network that writes the classifier's distribution from the support."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.batch import Batch
from handful.methods.embedded import Embedded


def _network(width: int, hidden: int, out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(width, hidden), nn.ELU(), nn.Linear(hidden, hidden), nn.ELU(), nn.Linear(hidden, out)
    )


class Amortised(nn.Module):
    """From a class's mean feature to mean and log-variance of its weights and bias."""

    def __init__(self, width: int, features: int, log_variance: float):
        super().__init__()
        self.reduce = nn.Linear(width, features)
        self.weight_mean, self.weight_spread = (
            _network(features, features, features),
            _network(features, features, features),
        )
        self.bias_mean, self.bias_spread = _network(features, features, 1), _network(features, features, 1)
        for spread in (self.weight_spread, self.bias_spread):
            nn.init.constant_(spread[-1].bias, log_variance)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Versa(Embedded):
    """Versa (Gordon, Bronskill, Bauer, Nowozin, Turner, "Meta-learning probabilistic inference for prediction", ICLR 2019).

    An inference network maps the mean feature of each class to a Gaussian over that class's weights and bias; the
    probability of a query is the mean of the softmax over samples ψ^l of them, and training maximises its logarithm:
    log 1/L Σ_l softmax(ψ^l f(x))_y.

    Parameters
    ----------
    features
        Length of the features that the classifier acts on; 256 in paper and public code, 64 here for small networks.
    samples
        L; 10 in the public code, in training and at test (drawn from each task's own seed).
    log_variance
        Where the log-variances start. The public code starts them near 0, where the noise of a logit is as long as the
        feature and drowns the means for thousands of steps (it takes 80,000 of 16 tasks); -10 here, nearly no noise, from
        which training may raise them.

    Notes
    -----
    Weights are drawn and probabilities averaged, as the paper writes it. The public code draws each query's scores
    instead (the local form of the same distribution), takes the class by the mean of exponentiated scores, and has dropout
    in its feature network.
    """

    features: int = 64
    samples: int = 10
    log_variance: float = -10.0

    name: ClassVar[str] = "versa"

    def __post_init__(self) -> None:
        if self.samples < 1 or self.features < 1:
            raise BadInput("versa: samples and features must be at least 1")

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {"amortised": Amortised(backbone.width, self.features, self.log_variance)}  # type: ignore[arg-type]

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        a: Amortised = m["amortised"]  # type: ignore[assignment]
        s, q = a.reduce(b.s), a.reduce(b.q)
        means = b.prototypes(s)
        weight, bias = a.weight_mean(means), a.bias_mean(means)
        spread, bias_spread = (0.5 * a.weight_spread(means)).exp(), (0.5 * a.bias_spread(means)).exp()
        noise = self.noise(b, weight.shape[-1] + 1).to(weight)
        weights = weight[:, None] + spread[:, None] * noise[..., :-1]
        biases = bias[:, None] + bias_spread[:, None] * noise[..., -1:]
        logits = torch.einsum("tqd,tlcd->tlqc", q, weights) + biases.transpose(-1, -2)
        logits = logits.masked_fill(b.absent[:, None, None, :], float("-inf"))
        return torch.log_softmax(logits, -1).logsumexp(1) - torch.log(torch.tensor(float(self.samples)))

    def noise(self, b: Batch, width: int) -> Tensor:
        """``(T, L, C, width)`` normal numbers, each task's from its own seed and free of the other tasks' sizes."""
        out = torch.zeros(len(b.seeds), self.samples, b.C, width)
        for t, (seed, n) in enumerate(zip(b.seeds, b.n.tolist(), strict=True)):
            generator = torch.Generator().manual_seed(int(seed))
            out[t, :, :n] = torch.randn(self.samples, n, width, generator=generator)
        return out

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        return F.nll_loss(self.head(m, b).flatten(0, 1), labels.flatten(), ignore_index=-2)
