"""FRN: a query's class is the one whose support maps reconstruct its map best."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.batch import Batch
from handful.methods.layers.local import by_class, descriptors
from handful.methods.layers.stages import Staged
from handful.methods.schedule import Schedule

AUGMENT: Any = ("resized-crop", "flip", "jitter")


class Reconstruction(nn.Module):
    """The three learned numbers: α and β set penalty and scale of the reconstruction, γ the scores' temperature."""

    def __init__(self) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.zeros(()))
        self.beta = nn.Parameter(torch.zeros(()))
        self.gamma = nn.Parameter(torch.ones(()))


class Categories(nn.Module):
    """One learned map for each training class, in the place of its support."""

    def __init__(self, n_classes: int, places: int, channels: int) -> None:
        super().__init__()
        self.maps = nn.Parameter(torch.randn(n_classes, places, channels))


@dataclass(frozen=True, kw_only=True)
class FRN(Staged):
    """Feature map reconstruction networks (Wertheimer, Tang, Hariharan, CVPR 2021).

    With S the k·r descriptors of a class's support and Q the r descriptors of a query,
    Q̄ = ρ Q (SᵀS + λI)⁻¹ SᵀS, λ = (kr/d) e^α, ρ = e^β, and the logit is -γ/r · |Q - Q̄|². Pre-training classifies batches by
    the same errors with one learned map for each training class as its S, α and β held at 0; then come tasks.

    Parameters
    ----------
    pretrain, schedule
        SGD with Nesterov momentum and decay 0.0005: the first at 0.1 on batches of 128, the second at 0.001, as published for
        ResNet-12 on miniImageNet. Conv-4 has tasks alone there: ``pretrain.steps=0``, ``schedule.rate=0.1``.
    auxiliary
        Weight of Σ_{i≠j} |Ŝ_i Ŝ_jᵀ|², which keeps the classes' descriptors apart; 0.03 as published.
    unit
        What has unit length in Ŝ: the whole ``support``, as in the public code, which also takes each pair of classes once; or
        every ``descriptor``, as the paper writes it. The sum has (shots · places)² terms a pair of classes: in the second
        reading 0.03 of it outweighs the cross-entropy a hundred times at five shots, and FRN learned nothing here; in the
        first, to which the weight belongs, it stays below 0.015.
    rescale
        Divide descriptors by √d, so that distances do not grow with the channels: the public code does so for ResNet-12 and
        not for Conv-4. On by default.

    Notes
    -----
    Pre-training's loss and its gradients are those of Tsingularity/FRN at 64e43f3. The smaller of the d x d and the kr x kr
    system is solved.
    """

    schedule: Schedule = field(
        default_factory=lambda: Schedule(optimiser="sgd", rate=1e-3, weight_decay=5e-4, augment=AUGMENT)
    )
    pretrain: Schedule = field(
        default_factory=lambda: Schedule(
            steps=2000, batch=128, optimiser="sgd", rate=0.1, weight_decay=5e-4, augment=AUGMENT
        )
    )
    auxiliary: float = 0.03
    unit: Literal["support", "descriptor"] = "support"
    rescale: bool = True

    name: ClassVar[str] = "frn"
    maps: ClassVar[bool] = True
    together: ClassVar[int] = 16
    first: ClassVar[tuple[str, ...]] = ("backbone", "reconstruction", "categories")
    second: ClassVar[tuple[str, ...]] = ("backbone", "reconstruction")

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        shape: Any = backbone.map_shape
        channels, height, width = shape
        return {"reconstruction": Reconstruction(), "categories": Categories(n_classes, height * width, channels)}

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(self.named(m, m["backbone"].maps(x).float()), labels)  # type: ignore[operator]

    def named(self, m: nn.ModuleDict, maps: Tensor) -> Tensor:
        """Logits ``(n, classes)`` of maps over the training classes."""
        r: Reconstruction = m["reconstruction"]  # type: ignore[assignment]
        s: Tensor = m["categories"].maps[None]  # type: ignore[index, assignment]
        count = s.new_full(s.shape[:2], s.shape[2])
        held = torch.zeros_like(r.alpha)
        return -r.gamma * errors(s, count, scaled(maps, self.rescale)[None], held, held)[0]

    def head(self, m: nn.ModuleDict, b: Batch) -> Tensor:
        r: Reconstruction = m["reconstruction"]  # type: ignore[assignment]
        s, count = support_sets(b, self.rescale)
        q = scaled(b.q, self.rescale)
        return b.close(-r.gamma * errors(s, count, q, r.alpha, r.beta))

    def task_loss(self, m: nn.ModuleDict, b: Batch, labels: Tensor) -> Tensor:
        loss = super().task_loss(m, b, labels)
        return loss + self.auxiliary * overlap(b, self.unit) if self.auxiliary else loss


def scaled(maps: Tensor, rescale: bool = True) -> Tensor:
    """Descriptors ``(..., r, d)``, divided by √d if wanted."""
    return descriptors(maps) / (maps.shape[-3] ** 0.5 if rescale else 1.0)


def support_sets(b: Batch, rescale: bool = True) -> tuple[Tensor, Tensor]:
    """Each class's support descriptors ``(T, C, K·r, d)``, zeros where it has fewer, and how many it has ``(T, C)``."""
    sets, mask = by_class(b, scaled(b.s, rescale))
    return sets.flatten(2, 3), (mask.sum(2) * sets.shape[3]).to(sets.dtype)


def errors(s: Tensor, count: Tensor, q: Tensor, alpha: Tensor, beta: Tensor) -> Tensor:
    """Mean squared reconstruction error ``(T, Q, C)`` of each query by each class.

    Written out as |q|² - x B xᵀ with x the query's products with the support (or the query itself), so that no
    reconstruction is ever held: B = 2ρM - ρ²MGM with G = SSᵀ, M = (G + λI)⁻¹; or with M = I and G the hat matrix.
    """
    n, d = s.shape[-2:]
    penalty = (count.clamp_min(1) / d * alpha.exp())[..., None, None]
    rho = beta.exp()
    st = s.transpose(-1, -2)
    flat = q.flatten(1, 2)[:, None]
    if n < d:
        gram = s @ st
        inverse = torch.linalg.inv(gram + penalty * torch.eye(n, dtype=s.dtype, device=s.device))
        x = flat @ st
        form = 2 * rho * inverse - rho.square() * inverse @ gram @ inverse
    else:
        hat = torch.linalg.solve(st @ s + penalty * torch.eye(d, dtype=s.dtype, device=s.device), st @ s)
        x = flat.expand(-1, s.shape[1], -1, -1)
        form = 2 * rho * hat - rho.square() * hat @ hat
    wrong = flat.square().sum(-1) - ((x @ form) * x).sum(-1)
    return wrong.unflatten(2, q.shape[1:3]).mean(3).transpose(1, 2)


def overlap(b: Batch, unit: str) -> Tensor:
    """Σ over pairs of different classes of the squared products of their descriptors, mean over tasks."""
    d = descriptors(b.s).flatten(1, 2)
    labels = b.y.repeat_interleave(d.shape[1] // b.y.shape[1], dim=1)
    d = d * (labels >= 0)[..., None]
    d = F.normalize(d, dim=-1) if unit == "descriptor" else d / d.norm(dim=(1, 2), keepdim=True).clamp_min(1e-12)
    products = (d @ d.transpose(1, 2)).square() * (labels[:, :, None] != labels[:, None, :])
    return products.sum((1, 2)).mean() / (1 if unit == "descriptor" else 2)
