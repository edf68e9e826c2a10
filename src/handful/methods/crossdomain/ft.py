"""FT: feature-wise transformation layers, on RelationNet, GNN and TPN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.methods.embedded import Embedded
from handful.methods.metric.gnn import GNN
from handful.methods.metric.relationnet import RelationNet
from handful.methods.metric.tpn import TPN
from handful.nets.resnet import BasicBlock, Bottleneck
from handful.nets.resnet12 import Block


class Transformation:
    """A forward hook: in training, every channel is scaled by N(1, s_γ) and shifted by N(0, s_β), one draw for the whole pass."""

    def __init__(self, gamma: float, beta: float):
        self.scale, self.shift = (float(F.softplus(torch.tensor(x))) for x in (gamma, beta))

    def __call__(self, layer: nn.Module, inputs: Any, out: Tensor) -> Tensor | None:
        if not layer.training or (self.scale == 0 and self.shift == 0):
            return None
        shape = (1, out.shape[1], 1, 1)
        gamma = 1 + self.scale * torch.randn(shape).to(out)
        beta = self.shift * torch.randn(shape).to(out)
        return gamma * out + beta


def last_norms(backbone: nn.Module) -> list[nn.BatchNorm2d]:
    """The batch norm that ends each block: of a residual block the last on its main path, elsewhere every one."""
    found: list[nn.BatchNorm2d] = []
    for block in backbone.modules():
        if isinstance(block, Bottleneck):
            found.append(block.bn3)
        elif isinstance(block, BasicBlock):
            found.append(block.bn2)
        elif isinstance(block, Block):
            found.append([layer for layer in block.body if isinstance(layer, nn.BatchNorm2d)][-1])
    return found or [layer for layer in backbone.modules() if isinstance(layer, nn.BatchNorm2d)]


@dataclass(frozen=True, kw_only=True)
class FeatureWise(Embedded):
    """Feature-wise transformation (Tseng, Lee, Huang, Yang, "Cross-domain few-shot classification via learned feature-wise transformation", ICLR 2020).

    In training, the activations after the last batch norm of each block are changed as another domain might change them:
    z ↦ γ z + β with γ ~ N(1, softplus(θ_γ)) and β ~ N(0, softplus(θ_β)) for each channel, drawn anew each step. At test
    time the layers do nothing.

    Parameters
    ----------
    gamma, beta
        θ_γ = 0.3 and θ_β = 0.5 as published for the hand-set form "FT"; minus infinity switches a layer off. The learned
        form, which fits both against a held-out training domain, is `LearnedFeatureWise`.
    """

    gamma: float = 0.3
    beta: float = 0.5

    def modules(self, shape: tuple[int, ...], n_classes: int) -> nn.ModuleDict:
        m = super().modules(shape, n_classes)
        for layer in last_norms(m["backbone"]):
            layer.register_forward_hook(Transformation(self.gamma, self.beta))
        return m


@dataclass(frozen=True, kw_only=True)
class RelationNetFT(FeatureWise, RelationNet):
    """RelationNet with feature-wise transformation (Tseng et al., ICLR 2020); see `FeatureWise` and `RelationNet`."""

    name: ClassVar[str] = "relationnet+ft"


@dataclass(frozen=True, kw_only=True)
class GNNFT(FeatureWise, GNN):
    """GNN with feature-wise transformation (Tseng et al., ICLR 2020); see `FeatureWise` and `GNN`."""

    name: ClassVar[str] = "gnn+ft"


@dataclass(frozen=True, kw_only=True)
class TPNFT(FeatureWise, TPN):
    """TPN with feature-wise transformation (Tseng et al., ICLR 2020); see `FeatureWise` and `TPN`."""

    name: ClassVar[str] = "tpn+ft"
