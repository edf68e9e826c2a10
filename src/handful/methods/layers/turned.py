"""A backbone that sees every image in its four quarter turns, for heads that use them all in a task."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from handful.methods.layers.rotation import TURNS, rotated


class Turned(nn.Module):
    """Features of an image's four turns side by side: ``(n, 4 · width)``."""

    def __init__(self, backbone: nn.Module):
        super().__init__()
        net: Any = backbone
        self.backbone = net
        self.width: int = TURNS * net.width

    @property
    def map_shape(self) -> tuple[int, int, int]:
        return self.backbone.map_shape

    def normalise(self, images: Tensor) -> Tensor:
        return self.backbone.normalise(images)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(self.backbone(rotated(x)[0]).chunk(TURNS), 1)
