"""Residual networks with torchvision's parameter names, so that published state dicts fit."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from handful.errors import BadInput
from handful.nets.backbone import Backbone, initialise


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, c_in: int, c: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(c, c, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c)
        self.downsample = shortcut(c_in, c, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, c_in: int, c: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c)
        self.conv2 = nn.Conv2d(c, c, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c)
        self.conv3 = nn.Conv2d(c, 4 * c, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * c)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(c_in, 4 * c, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        return self.relu(self.bn3(self.conv3(y)) + (x if self.downsample is None else self.downsample(x)))


def shortcut(c_in: int, c_out: int, stride: int) -> nn.Module | None:
    if stride == 1 and c_in == c_out:
        return None
    return nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))


class ResNet(Backbone):
    """He et al., "Deep residual learning", CVPR 2016: a stem and four stages.

    ``stem`` is ``7x7`` with stride 2 and max-pooling, as for ImageNet, or ``3x3`` with stride 1 and no pooling, as few-shot
    work has it for small images (11x11 places instead of 3x3 at 84x84; LibFewShot at 067efb7). ``auto`` takes that of the
    weights if there are any; else, in networks of basic blocks, 3x3 for images of less than 112 pixels, 7x7 from there on.
    The vector is the average of the last map. Normalisation: ImageNet's mean and deviation on three channels, 0.5 and 0.5
    on one. ``size`` resizes images first (224, as published weights were trained; 0 leaves them as they are).
    ``weights=FILE`` reads a state dict in torchvision's format. Where a bottleneck halves the map, its 3x3 convolution
    does (torchvision's reading, known as v1.5), not its first 1x1 convolution as in the paper.
    """

    mean: ClassVar[tuple[float, ...]] = (0.485, 0.456, 0.406)
    std: ClassVar[tuple[float, ...]] = (0.229, 0.224, 0.225)
    block: type[BasicBlock] | type[Bottleneck] = BasicBlock
    depths: tuple[int, ...] = (2, 2, 2, 2)

    def __init__(self, shape: tuple[int, ...], size: int = 0, stem: Literal["auto", "3x3", "7x7"] = "auto"):
        super().__init__(shape)
        if size < 0:
            raise BadInput(
                f"{type(self).__name__} resizes images to {size} pixels; give a positive size, or 0 for none"
            )
        self.size = size or None
        if shape[2] == 1:
            self.mean, self.std = (0.5,), (0.5,)  # type: ignore[misc]
        side = [size, size] if size else [shape[0], shape[1]]
        small = stem == "3x3" or (stem == "auto" and self.block is BasicBlock and min(side) < 112)
        self.conv1 = (
            nn.Conv2d(shape[2], 64, 3, 1, 1, bias=False) if small else nn.Conv2d(shape[2], 64, 7, 2, 3, bias=False)
        )
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool: nn.Module = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        c_in = 64
        stages: list[nn.Module] = []
        for i, depth in enumerate(self.depths):
            blocks: list[nn.Module] = []
            for j in range(depth):
                blocks.append(self.block(c_in, 64 * 2**i, 2 if i > 0 and j == 0 else 1))
                c_in = 64 * 2**i * self.block.expansion
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        initialise(self)
        self.width = c_in
        for _ in range(3 if small else 5):
            side = [(s + 1) // 2 for s in side]
        self.map_shape = (c_in, side[0], side[1])

    def maps(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.layer4(self.layer3(self.layer2(self.layer1(x))))


class ResNet10(ResNet):
    """ResNet-10: one basic block per stage, 512 outputs, as in few-shot work on CUB and miniImageNet (Chen et al., "A closer
    look at few-shot classification", ICLR 2019)."""

    depths = (1, 1, 1, 1)


class ResNet18(ResNet):
    """ResNet-18: two basic blocks per stage, 512 outputs."""


class ResNet50(ResNet):
    """ResNet-50: 3, 4, 6 and 3 bottleneck blocks, 2,048 outputs."""

    block = Bottleneck
    depths = (3, 4, 6, 3)
