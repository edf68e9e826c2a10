"""Wide residual networks, the wide backbone of few-shot work."""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput
from handful.nets.backbone import Backbone, initialise

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class WideBlock(nn.Module):
    """Norm, ReLU, 3x3 convolution, twice; where the width changes, a 1x1 convolution of the activated input is added to
    it, else the input itself."""

    def __init__(self, c_in: int, c: int, stride: int, drop: float):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(c_in)
        self.conv1 = nn.Conv2d(c_in, c, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c)
        self.conv2 = nn.Conv2d(c, c, 3, 1, 1, bias=False)
        self.drop = drop
        self.convShortcut = None if c_in == c else nn.Conv2d(c_in, c, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(self.bn1(x))
        y = F.relu(self.bn2(self.conv1(active)))
        y = self.conv2(F.dropout(y, self.drop, self.training))
        return y + (x if self.convShortcut is None else self.convShortcut(active))


class WideStage(nn.Module):
    def __init__(self, c_in: int, c: int, blocks: int, stride: int, drop: float):
        super().__init__()
        own = [WideBlock(c_in if i == 0 else c, c, stride if i == 0 else 1, drop) for i in range(blocks)]
        self.layer = nn.Sequential(*own)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class WRN2810(Backbone):
    """Zagoruyko, Komodakis, "Wide residual networks", BMVC 2016: 28 layers, ten times as wide, 640 outputs.

    A 3x3 convolution to 16 channels, then three stages of four blocks with 160, 320 and 640 channels, the last two halving
    the map; a last norm and ReLU. Its vector is the average of that map. Parameters are named as in the PyTorch version
    that published checkpoints come from (``block1.layer.0.conv1.weight``).

    ``drop`` is the dropout between a block's convolutions in training (0 by default, as with batch norm alone in the
    paper; 0.3 there for SVHN). Normalisation: ImageNet's mean and deviation on three channels, 0.5 and 0.5 on one.
    """

    depth: ClassVar[int] = 28
    widen: ClassVar[int] = 10

    def __init__(self, shape: tuple[int, ...], drop: float = 0.0):
        super().__init__(shape)
        if not 0 <= drop < 1:
            raise BadInput(f"wrn-28-10 drops a share of at least 0 and less than 1, not {drop}")
        blocks = (self.depth - 4) // 6
        widths = [16 * self.widen * 2**i for i in range(3)]
        self.conv1 = nn.Conv2d(shape[2], 16, 3, 1, 1, bias=False)
        self.block1 = WideStage(16, widths[0], blocks, 1, drop)
        self.block2 = WideStage(widths[0], widths[1], blocks, 2, drop)
        self.block3 = WideStage(widths[1], widths[2], blocks, 2, drop)
        self.bn1 = nn.BatchNorm2d(widths[2])
        initialise(self)
        self.mean, self.std = IMAGENET if shape[2] == 3 else ((0.5,), (0.5,))  # type: ignore[misc]
        self.width = widths[2]
        side = [shape[0], shape[1]]
        for _ in range(2):
            side = [(s + 1) // 2 for s in side]
        self.map_shape = (widths[2], side[0], side[1])

    def maps(self, x: Tensor) -> Tensor:
        return F.relu(self.bn1(self.block3(self.block2(self.block1(self.conv1(x))))))
