"""ResNet-12 as few-shot work uses it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.nets.backbone import Backbone, initialise


class DropBlock(nn.Module):
    """Drops squares of a feature map (Ghiasi, Lin, Le, "DropBlock", NeurIPS 2018); does nothing outside training."""

    def __init__(self, rate: float, block: int):
        super().__init__()
        self.rate, self.block = rate, block

    def forward(self, x: Tensor, reached: float = 1.0) -> Tensor:
        """``reached`` is the share of the rate that training has come to."""
        side = min(x.shape[-2:])
        block = min(self.block, side)
        if not self.training or self.rate == 0:
            return x
        valid = (x.shape[-2] - block + 1) * (x.shape[-1] - block + 1)
        gamma = self.rate * reached / block**2 * (x.shape[-2] * x.shape[-1]) / valid
        centres = torch.zeros_like(x)
        inner = (*x.shape[:2], x.shape[-2] - block + 1, x.shape[-1] - block + 1)
        top = (block - 1) // 2
        centres[..., top : top + inner[2], top : top + inner[3]] = torch.bernoulli(x.new_full(inner, gamma))
        pad = (top, block - 1 - top, top, block - 1 - top)
        dropped = F.max_pool2d(F.pad(centres, (pad[1], pad[0], pad[3], pad[2])), block, 1)
        keep = 1 - dropped
        return x * keep * (keep.numel() / keep.sum().clamp_min(1))


class ResNet12Block(nn.Module):
    def __init__(self, c_in: int, c_out: int, rate: float, block: int, ramp: int):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(c_in, c_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(c_out),
            nn.LeakyReLU(0.1),
            nn.Conv2d(c_out, c_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(c_out),
            nn.LeakyReLU(0.1),
            nn.Conv2d(c_out, c_out, 3, padding=1, bias=False),
            nn.BatchNorm2d(c_out),
        )
        self.shortcut = nn.Sequential(nn.Conv2d(c_in, c_out, 1, bias=False), nn.BatchNorm2d(c_out))
        self.drop = DropBlock(rate, block) if block else nn.Dropout(rate)
        self.ramp = ramp

    def forward(self, x: Tensor) -> Tensor:
        y = F.max_pool2d(F.leaky_relu(self.body(x) + self.shortcut(x), 0.1), 2)
        if not self.training or not isinstance(self.drop, DropBlock):
            return self.drop(y)
        return self.drop(y, self.reached())

    def reached(self) -> float:
        """How far the rate has risen: batch norm counts the batches, so a resumed training goes on where it was."""
        passed = getattr(self.body[1], "num_batches_tracked", None)
        return min(1.0, int(passed) / self.ramp) if self.ramp and passed is not None else 1.0


class ResNet12(Backbone):
    """Four residual blocks of 64-160-320-640 channels with dropout in the first two and DropBlock in the last two (Lee et
    al., MetaOptNet, CVPR 2019).

    The vector is the average of the last map (640). Normalisation: ImageNet's mean and deviation on three channels,
    0.5 and 0.5 on one. ``drop`` is the share dropped in training (0.1 as published), in squares of 5 in the last two
    blocks, where it rises evenly from nothing over the first ``ramp`` batches (40,000 as published; 0 for at once).
    """

    def __init__(self, shape: tuple[int, ...], drop: float = 0.1, ramp: int = 40_000):
        super().__init__(shape)
        widths = (64, 160, 320, 640)
        channels = (shape[2], *widths)
        self.layers = nn.Sequential(
            *(ResNet12Block(channels[i], channels[i + 1], drop, 5 if i >= 2 else 0, ramp) for i in range(4))
        )
        initialise(self)
        self.mean = (0.485, 0.456, 0.406) if shape[2] == 3 else (0.5,)  # type: ignore[misc]
        self.std = (0.229, 0.224, 0.225) if shape[2] == 3 else (0.5,)  # type: ignore[misc]
        self.map_shape = (640, shape[0] // 16, shape[1] // 16)
        self.width = 640

    def maps(self, x: Tensor) -> Tensor:
        return self.layers(x)
