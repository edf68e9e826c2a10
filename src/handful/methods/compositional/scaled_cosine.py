"""Baseline++ whose classes each learn the scale of their cosine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.finetuning.baseline import BaselinePP
from handful.methods.heads import cosine

Params = dict[str, Tensor]
START = 10.0
MOMENTUM = 0.9


class ScaledCosine(nn.Module):
    """g_c cos(x, w_c) with a learned g_c of each class."""

    def __init__(self, width: int, n_classes: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_classes, width) * 0.01)
        self.scale = nn.Parameter(torch.full((n_classes,), START))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * cosine(x, self.weight)


@dataclass(frozen=True, kw_only=True)
class ScaledBaselinePP(BaselinePP):
    """One axis of RLCL's Baseline++ (Appendix F), g_c cos(f(x), w_c) with a learnable scalar g_c of each class.

    Parameters
    ----------
    learn_scale
        True is RLCL's reading; False the fixed scale of `BaselinePP`. Scales start at 10.
    """

    learn_scale: bool = False

    name: ClassVar[str] = "scaled-baseline++"

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        if not self.learn_scale:
            return super().extras(backbone, n_classes)
        return {"classifier": ScaledCosine(backbone.width, n_classes)}  # type: ignore[arg-type]

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        if not self.learn_scale:
            return super().head(m, b)
        params = start(b)
        speed = {k: torch.zeros_like(v) for k, v in params.items()}
        first = True
        for at, used in minibatches(b, self.task_batch, self.passes):
            x = torch.gather(b.s, 1, at[..., None].expand(-1, -1, b.s.shape[-1])).detach()
            y = torch.gather(b.y.clamp_min(0), 1, at)
            with torch.inference_mode(False), torch.enable_grad():
                leaves = {k: v.clone().requires_grad_() for k, v in params.items()}
                logits = scores(leaves, x.clone()).masked_fill(b.absent[:, None, :], -1e9)
                losses = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(used.shape)
                loss = ((losses * used).sum(1) / used.sum(1).clamp_min(1)).sum()
                grads = torch.autograd.grad(loss, list(leaves.values()))
            keep = 0.0 if first else MOMENTUM  # dampening equals momentum, as in `fit_linear`
            active = used.any(1)  # a task whose pass is over waits for the others
            for (name, value), gradient in zip(params.items(), grads, strict=True):
                moved = keep * speed[name] + (1 - keep) * (gradient + self.weight_decay * value)
                on = active.view(-1, *([1] * (value.ndim - 1)))
                speed[name] = torch.where(on, moved, speed[name])
                params[name] = torch.where(on, value - self.rate * moved, value)
            first = False
        return b.close(scores(params, b.q))


def start(b: Batch) -> Params:
    """Weights of noise from each task's own seed, scales of `START`."""
    weight = torch.zeros(len(b.n), b.C, b.s.shape[-1])
    for t, (seed, n) in enumerate(zip(b.seeds, b.n.tolist(), strict=True)):
        weight[t, :n] = 0.01 * torch.randn(n, weight.shape[2], generator=torch.Generator().manual_seed(int(seed)))
    return {"weight": weight.to(b.s), "scale": torch.full((len(b.n), b.C), START).to(b.s)}


def scores(p: Params, x: Tensor) -> Tensor:
    """Logits ``(T, n, C)`` of features ``(T, n, d)``."""
    return p["scale"][:, None, :] * (F.normalize(x, dim=-1) @ F.normalize(p["weight"], dim=-1).transpose(1, 2))


def minibatches(b: Batch, size: int, passes: int) -> list[tuple[Tensor, Tensor]]:
    """Places in each task's support and which of them count, ``(T, size)`` each, a new order of each task's own every pass."""
    orders = [torch.Generator().manual_seed(int(seed) ^ 0x5EED) for seed in b.seeds]
    own = [(b.y[t] >= 0).nonzero()[:, 0].cpu() for t in range(len(b.n))]
    length = -(-max(len(o) for o in own) // size) * size
    out = []
    for _ in range(passes):
        places = torch.full((len(own), length), -1, dtype=torch.long)
        for t, generator in enumerate(orders):
            places[t, : len(own[t])] = own[t][torch.randperm(len(own[t]), generator=generator)]
        for piece in places.to(b.y.device).split(size, 1):
            out.append((piece.clamp_min(0), piece >= 0))
    return out
