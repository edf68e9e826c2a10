"""Residual networks (He et al., 2016) with the names of torchvision's parameters, so that its state dicts fit."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def _conv(inside: int, outside: int, size: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inside, outside, size, stride, size // 2, bias=False)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a way around them."""

    expansion = 1

    def __init__(self, inside: int, planes: int, stride: int = 1, downsample: nn.Module | None = None) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv(inside, planes, 3, stride), nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = _conv(planes, planes, 3), nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        around = x if self.downsample is None else self.downsample(x)
        return self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))) + around)


class Bottleneck(nn.Module):
    """1x1, 3x3 with the stride, 1x1 to four times the planes."""

    expansion = 4

    def __init__(self, inside: int, planes: int, stride: int = 1, downsample: nn.Module | None = None) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv(inside, planes, 1), nn.BatchNorm2d(planes)
        self.conv2, self.bn2 = _conv(planes, planes, 3, stride), nn.BatchNorm2d(planes)
        self.conv3, self.bn3 = _conv(planes, 4 * planes, 1), nn.BatchNorm2d(4 * planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        around = x if self.downsample is None else self.downsample(x)
        inner = self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))
        return self.relu(self.bn3(self.conv3(inner)) + around)


class ResNet(nn.Module):
    """Stem, four stages, mean, one linear layer."""

    def __init__(self, block: Any, layers: list[int], num_classes: int = 1000) -> None:
        super().__init__()
        self.inplanes = 64
        self.conv1, self.bn1, self.relu = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for i, count in enumerate(layers):
            setattr(self, f"layer{i + 1}", self._stage(block, 64 << i, count, 1 if i == 0 else 2))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(512 * block.expansion, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def _stage(self, block: Any, planes: int, count: int, stride: int) -> nn.Sequential:
        out = planes * block.expansion
        down = None
        if stride != 1 or self.inplanes != out:
            down = nn.Sequential(_conv(self.inplanes, out, 1, stride), nn.BatchNorm2d(out))
        first = block(self.inplanes, planes, stride, down)
        self.inplanes = out
        return nn.Sequential(first, *(block(out, planes) for _ in range(count - 1)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for i in range(4):
            x = getattr(self, f"layer{i + 1}")(x)
        return self.fc(torch.flatten(self.avgpool(x), 1))


def _build(block: Any, layers: list[int], pretrained: Any, weights: Any, **options: Any) -> ResNet:
    if pretrained or weights is not None:
        raise RuntimeError(
            "there is no network here and the stand-in for torchvision has no weights: "
            "put the state dict into the archive and load it from there"
        )
    return ResNet(block, layers, options.get("num_classes", 1000))


def resnet18(pretrained: bool = False, progress: bool = True, weights: Any = None, **options: Any) -> ResNet:
    return _build(BasicBlock, [2, 2, 2, 2], pretrained, weights, **options)


def resnet34(pretrained: bool = False, progress: bool = True, weights: Any = None, **options: Any) -> ResNet:
    return _build(BasicBlock, [3, 4, 6, 3], pretrained, weights, **options)


def resnet50(pretrained: bool = False, progress: bool = True, weights: Any = None, **options: Any) -> ResNet:
    return _build(Bottleneck, [3, 4, 6, 3], pretrained, weights, **options)
