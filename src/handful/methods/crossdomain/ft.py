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
from handful.nets.resnet12 import ResNet12Block


def deviation(theta: Tensor) -> Tensor:
    """The spread that θ stands for: softplus so sharp (100, as in the public code) that it is θ itself above 0.05."""
    return F.softplus(theta, beta=100)


class Transformation:
    """A forward hook: in training, every channel is scaled by N(1, s_γ) and shifted by N(0, s_β), one draw for the whole pass."""

    def __init__(self, gamma: float, beta: float):
        self.scale, self.shift = (float(deviation(torch.tensor(x))) for x in (gamma, beta))

    def __call__(self, layer: nn.Module, inputs: Any, out: Tensor) -> Tensor | None:
        if not layer.training or (self.scale == 0 and self.shift == 0):
            return None
        shape = (1, out.shape[1], 1, 1)
        gamma = 1 + self.scale * torch.randn(shape).to(out)
        beta = self.shift * torch.randn(shape).to(out)
        return gamma * out + beta


def last_norms(backbone: nn.Module) -> list[nn.BatchNorm2d]:
    """The batch norms that end a block: of a residual block the last on its main path and that of its shortcut, elsewhere
    every one. Main paths come first, so that a block's number does not depend on how many shortcuts have a norm."""
    main: list[nn.BatchNorm2d] = []
    shortcuts: list[nn.BatchNorm2d] = []
    for block in backbone.modules():
        if isinstance(block, Bottleneck):
            main.append(block.bn3)
        elif isinstance(block, BasicBlock):
            main.append(block.bn2)
        elif isinstance(block, ResNet12Block):
            main += norms(block.body)[-1:]
        if isinstance(block, (BasicBlock, Bottleneck)) and block.downsample is not None:
            shortcuts += norms(block.downsample)
        elif isinstance(block, ResNet12Block):
            shortcuts += norms(block.shortcut)
    return main + shortcuts or norms(backbone)


def norms(module: nn.Module) -> list[nn.BatchNorm2d]:
    return [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d)]


@dataclass(frozen=True, kw_only=True)
class FeatureWise(Embedded):
    """Feature-wise transformation (Tseng, Lee, Huang, Yang, "Cross-domain few-shot classification via learned feature-wise transformation", ICLR 2020).

    In training, the activations after the last batch norm of each block, and after that of its shortcut, are changed as
    another domain might change them: z ↦ γ z + β with γ ~ N(1, s(θ_γ)) and β ~ N(0, s(θ_β)) for each channel, drawn anew
    each step; s(θ) = log(1 + exp(100 θ)) / 100. At test time the layers do nothing.

    Parameters
    ----------
    gamma, beta
        θ_γ = 0.3 and θ_β = 0.5 as published for the hand-set form "FT", and so are the deviations; minus infinity switches
        a layer off. The learned form, which fits both against a held-out training domain, is `LearnedFeatureWise`.

    Notes
    -----
    Read in hytseng0509/CrossDomainFewShot at 57cc841: the paper writes softplus, the code has one of sharpness 100.
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
