"""A backbone that sees every image in its four quarter turns, for heads that use them all in a task."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from handful.methods.layers.rotation import TURNS, rotated


class Turned(nn.Module):
    """Features of an image's four turns side by side: ``(n, 4 · width)``; of several orders of its channels one after another."""

    def __init__(self, backbone: nn.Module, orders: tuple[tuple[int, ...], ...] = ()):
        super().__init__()
        net: Any = backbone
        self.backbone = net
        self.orders = orders[1:]  # the first is the image as it is
        self.width: int = TURNS * net.width * (1 + len(self.orders))

    @property
    def map_shape(self) -> tuple[int, int, int]:
        return self.backbone.map_shape

    def normalise(self, images: Tensor) -> Tensor:
        return self.backbone.normalise(images)

    def forward(self, x: Tensor) -> Tensor:
        turned = rotated(x)[0]
        views = torch.cat([turned, *(turned[:, list(order)] for order in self.orders)])
        return torch.cat(self.backbone(views).chunk(TURNS * (1 + len(self.orders))), 1)
