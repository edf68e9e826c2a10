"""LP++: a linear probe whose classes each mix in their text by a learned weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from handful.methods.adapters.base import Adapter, support_loss, taught, unit
from handful.methods.batch import Batch
from handful.methods.heads import first_weights


@dataclass(frozen=True, kw_only=True)
class LPPlus(Adapter):
    """LP++ (Huang et al., "LP++: a surprisingly strong linear probe for few-shot CLIP", CVPR 2024).

    logit_c = w_c·x + b_c + α_c (t_c·x). w starts at the sum of its class's support, α at 250 times the mean similarity of classes'
    own images and texts; steps are as long as the losses' Lipschitz constants allow: 4 n / λ_max(SᵀS) for w and b, n / (4 max_c
    Σ_i (s_i·t_c)²) for α, which moves at every tenth step.

    Parameters
    ----------
    steps
        Steps of gradient descent (momentum 0.9) over the whole support; 300 as published.
    scale
        What the start of α is multiplied by; 1 as published, for sharpness 100.

    Notes
    -----
    Logits are those of FereshteShakeri/FewShot-CLIP-Strong-Baseline at f81054f, whose gradient of α adds up over all steps so far
    (it is never cleared); so it does here. The code keeps the step that is best on validation images; here the last is kept.
    """

    steps: int = 300
    scale: float = 1.0

    name: ClassVar[str] = "lp++"
    together: ClassVar[int] = 32
    grid: ClassVar[dict[str, tuple[Any, ...]]] = {"steps": (30, 100, 300), "scale": (0.1, 0.3, 1.0)}

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        s, q, words = unit(b.s) * (b.y >= 0)[..., None], unit(b.q), self.words(m, b)
        n = (b.y >= 0).sum(1).to(s)
        text = s @ words.transpose(1, 2)  # (T, S, C)
        own = (text * b.one_hot).sum(1) / b.one_hot.sum(1).clamp_min(1)
        start = self.scale * 250 * own.sum(1) / taught(b).sum(1)  # shots times their mean, divided by the shots again
        alpha = start[:, None].expand(-1, b.C).clone()
        largest = torch.linalg.eigvalsh((s @ s.transpose(1, 2)).double())[:, -1].to(s)
        rate = (4 * n / largest)[:, None]
        rate_alpha = (n / (4 * (text.square().sum(1) * taught(b)).amax(1)))[:, None]
        weight, bias = b.one_hot.transpose(1, 2) @ s, first_weights(b)[1]
        speed, speed_bias, total = torch.zeros_like(weight), torch.zeros_like(bias), torch.zeros_like(alpha)
        for step in range(self.steps):
            with torch.enable_grad():
                now = [v.detach().requires_grad_() for v in (weight, bias, alpha)]
                logits = s @ now[0].transpose(1, 2) + now[1][:, None] + now[2][:, None] * text
                slopes = torch.autograd.grad(support_loss(b, logits), now)
            speed, speed_bias = 0.9 * speed + slopes[0], 0.9 * speed_bias + slopes[1]
            weight, bias, total = weight - rate[..., None] * speed, bias - rate * speed_bias, total + slopes[2]
            if (step + 1) % 10 == 0:
                alpha = alpha - rate_alpha * total
        return b.close(q @ weight.transpose(1, 2) + bias[:, None] + alpha[:, None] * (q @ words.transpose(1, 2)))
