"""TSA: task-specific adapters, fitted to each support."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.methods.contract import Predictor
from handful.methods.embedded import Embedded
from handful.methods.heads import CosineClassifier, cosine
from handful.methods.modules import ModuleLearner
from handful.methods.schedule import Schedule
from handful.methods.stages import Stage
from handful.nets.compute import Compute
from handful.nets.features import embed_images
from handful.nets.resnet import ResNet
from handful.tasks.episode import Query, Support

SCALE = 10.0


class Adapter(nn.Module):
    """A frozen convolution plus a 1x1 convolution beside it: conv(x) + α x."""

    def __init__(self, convolution: nn.Conv2d):
        super().__init__()
        self.convolution = convolution
        alpha = 1e-4 * torch.eye(*convolution.weight.shape[:2])
        self.alpha = nn.Parameter(alpha[..., None, None].to(convolution.weight))

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x) + F.conv2d(x, self.alpha, stride=self.convolution.stride)


def with_adapters(backbone: nn.Module) -> nn.Module:
    """A frozen copy of a backbone with an adapter at every 3x3 convolution that keeps its size, a ResNet's stem left out."""
    backbone = copy.deepcopy(backbone).requires_grad_(False).eval()
    for parent in list(backbone.modules()):
        for name, layer in list(parent.named_children()):
            if isinstance(parent, ResNet) and name == "conv1":
                continue
            if isinstance(layer, nn.Conv2d) and layer.kernel_size == (3, 3) and layer.padding == (1, 1):
                setattr(parent, name, Adapter(layer))
    return backbone


def prototypes(x: Tensor, y: Tensor, ways: int, weight: Tensor | None = None) -> Tensor:
    """Class means of features, each first multiplied by its weight."""
    hot = F.one_hot(y, ways).to(x.dtype)
    x = x if weight is None else x * weight[:, None]
    return hot.T @ x / hot.sum(0).clamp_min(1)[:, None]


@dataclass(frozen=True, kw_only=True)
class TSA(Embedded):
    """TSA (Li, Liu, Bilen, "Cross-domain few-shot learning with task-specific adapters", CVPR 2022).

    The backbone is pre-trained and frozen. A task attaches to each 3x3 convolution a residual adapter, x ↦ conv(x) + α x
    with α a 1x1 convolution, and to the features a linear map β, and fits both to the support so that every support
    image finds the mean of its class: softmax of 10 · cos(β f(x), c_k). Queries are answered by the same cosines.

    Parameters
    ----------
    steps, rate, beta_rate
        40 steps of Adadelta at 0.5 for the adapters and 1 for β, the public code's for data sets that training has not
        seen; for new classes of data sets that it has seen, that code takes 0.05 and 0.1. α starts at 1e-4 times the
        identity and β at the identity.

    Notes
    -----
    Read in VICO-UoE/URL at 0f6ef45. As there the 3x3 convolutions of a ResNet's blocks are adapted; of other backbones all.
    Its backbone is distilled from several domains; here it is pre-trained by a cosine classifier on the training classes.
    """

    schedule: Schedule = field(default_factory=lambda: Schedule(steps=2000, augment=("crop", "flip", "jitter")))
    steps: int = 40
    rate: float = 0.5
    beta_rate: float = 1.0

    name: ClassVar[str] = "tsa"
    tunes: ClassVar[bool] = True

    def stages(self) -> list[Stage]:
        return [Stage("batches", self.schedule)]

    def __post_init__(self) -> None:
        if self.steps < 0 or self.rate < 0 or self.beta_rate < 0:
            raise BadInput(f"{self.name} needs steps and rates of at least 0")

    def extras(self, backbone: nn.Module, n_classes: int) -> dict[str, nn.Module]:
        return {"classifier": CosineClassifier(backbone.width, n_classes, SCALE)}  # type: ignore[arg-type]

    def batch_loss(self, m: nn.ModuleDict, x: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(m["classifier"](m["backbone"](x).float()), labels)

    def untrained(  # type: ignore[override]
        self, shape: tuple[int, ...], n_classes: int = 2, compute: Compute | None = None
    ) -> AdaptedLearner:
        return AdaptedLearner(
            self, self.modules(tuple(shape), n_classes), tuple(shape), n_classes, compute or Compute()
        )

    def adapt(self, net: nn.Module, beta: Tensor, x: Tensor, y: Tensor, ways: int, seed: int) -> Tensor | None:
        """Fit adapters and β in place; a weight for each support image, or None for equal ones."""
        optimiser = self.optimiser(net, beta)
        for _ in range(self.steps):
            optimiser.zero_grad()
            self.plain_loss(net, beta, x, y, ways).backward()
            optimiser.step()
        return None

    def plain_loss(self, net: nn.Module, beta: Tensor, x: Tensor, y: Tensor, ways: int) -> Tensor:
        """Every support image is to find the mean of its class."""
        features = net(x) @ beta.T
        return F.cross_entropy(SCALE * cosine(features, prototypes(features, y, ways)), y)

    def optimiser(self, net: nn.Module, beta: Tensor, *more: nn.Module) -> torch.optim.Optimizer:
        adapters = [p for p in net.parameters() if p.requires_grad] + [p for m in more for p in m.parameters()]
        groups: list[dict[str, Any]] = [{"params": [beta], "lr": self.beta_rate}]
        if adapters:
            groups.append({"params": adapters})
        return torch.optim.Adadelta(groups, lr=self.rate)


class AdaptedLearner(ModuleLearner):
    """Fits adapters to each support."""

    method: TSA

    def fit(self, support: Support) -> AdaptedPredictor:
        images = self.fitting(support.images)
        with self.compute.here() as device, torch.enable_grad():
            net: Any = with_adapters(self.backbone)
            x = net.normalise(torch.from_numpy(images.copy()).to(device))
            y = torch.as_tensor(np.asarray(support.labels), device=device)
            beta = torch.eye(net.width, device=device).requires_grad_()
            weight = self.method.adapt(net, beta, x, y, support.n_classes, int(support.seed))
        with self.compute.here(), torch.no_grad():
            features = embed_images(net, images, self.compute) @ beta.T
            means = prototypes(features, y, support.n_classes, weight)
        return AdaptedPredictor(net, beta.detach(), means, self.compute)


class AdaptedPredictor(Predictor):
    def __init__(self, net: nn.Module, beta: Tensor, means: Tensor, compute: Compute):
        self.net, self.beta, self.means, self.compute = net, beta, means, compute

    def predict(self, query: Query) -> np.ndarray:
        with self.compute.here(), torch.no_grad():
            features = embed_images(self.net, np.asarray(query.images), self.compute) @ self.beta.T
            return (SCALE * cosine(features, self.means)).float().cpu().numpy()
