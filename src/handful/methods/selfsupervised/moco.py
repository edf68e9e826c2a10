"""MoCo: contrastive pre-training against a queue of keys from a slowly moving encoder."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.layers.views import random_view
from handful.methods.selfsupervised.simclr import SelfSupervised, projector


class Keys(nn.Module):
    """The momentum encoder and the queue of its last outputs."""

    queue: Tensor
    place: Tensor

    def __init__(self, backbone: nn.Module, project: nn.Module, out: int, length: int):
        super().__init__()
        self.encoder = nn.Sequential(copy.deepcopy(backbone), copy.deepcopy(project)).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(length, out), dim=1))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def follow(self, backbone: nn.Module, project: nn.Module, momentum: float) -> None:
        """θ_k ← m θ_k + (1 - m) θ_q."""
        trained = [*backbone.parameters(), *project.parameters()]
        for key, query in zip(self.encoder.parameters(), trained, strict=True):
            key.mul_(momentum).add_(query.detach(), alpha=1 - momentum)

    @torch.no_grad()
    def push(self, keys: Tensor) -> None:
        """Put new keys where the oldest are."""
        length = len(self.queue)
        keys = keys[-length:]
        at = (self.place + torch.arange(len(keys), device=keys.device)) % length
        self.queue[at] = keys.to(self.queue.dtype)
        self.place.copy_((self.place + len(keys)) % length)


@dataclass(frozen=True, kw_only=True)
class MoCo(SelfSupervised):
    """MoCo (He, Fan, Wu, Xie, Girshick, "Momentum contrast for unsupervised visual representation learning", CVPR 2020).

    A view's query must pick the key of the image's other view out of a queue of older keys: -log exp(q·k₊/τ) / Σ_k
    exp(q·k/τ). Keys come from an encoder that follows the trained one, θ_k ← m θ_k + (1 - m) θ_q. Training labels are never
    used. A task is answered from the backbone's frozen features.

    Parameters
    ----------
    temperature, momentum, out
        τ = 0.07, m = 0.999 and 128, as published.
    queue
        Keys kept. 65,536 in the paper, for 1.3 million images; 1,024 here, which should stay well below the number of
        training images.

    Notes
    -----
    The head has two layers, as in the authors' second version (arXiv 2003.04297). The paper shuffles batch-norm statistics
    between machines; on one device queries and keys are normalised in separate passes. It trains with SGD at
    0.03; the schedule here is Adam's.
    """

    temperature: float = 0.07
    momentum: float = 0.999
    out: int = 128
    queue: int = 1024
    smallest: float = 0.2

    name: ClassVar[str] = "moco"

    def __post_init__(self) -> None:
        if self.temperature <= 0 or not 0 <= self.momentum <= 1 or self.queue < 1:
            raise BadInput("moco needs a temperature above 0, a momentum in [0, 1] and a queue of at least 1")

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        project = projector(backbone.width, self.out)  # type: ignore[arg-type]
        return {"project": project, "momentum": Keys(backbone, project, self.out, self.queue)}

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        first, second = random_view(x, self.smallest), random_view(x, self.smallest)
        query = F.normalize(m["project"](m["backbone"](first).float()), dim=1)
        keys: Keys = m["momentum"]  # type: ignore[assignment]
        keys.follow(m["backbone"], m["project"], self.momentum)
        with torch.no_grad():
            key = F.normalize(keys.encoder(second).float(), dim=1)
        loss = info_nce(query, key, keys.queue.clone(), self.temperature)
        keys.push(key)
        return loss


def info_nce(query: Tensor, key: Tensor, others: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of each query's own key against its key and all others."""
    own = (query * key).sum(1, keepdim=True)
    logits = torch.cat([own, query @ others.T], 1) / temperature
    return F.cross_entropy(logits, torch.zeros(len(query), dtype=torch.long, device=query.device))
