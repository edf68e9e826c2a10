"""No network: the pixels (or given features) themselves."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from handful.nets.backbone import Backbone


class Pixels(Backbone):
    """Flattened pixels on the scale 0..1, or the collection's own feature vectors unchanged."""

    def __init__(self, shape: tuple[int, ...]):
        nn.Module.__init__(self)
        self.shape = tuple(shape)
        self.width = int(torch.Size(shape).numel())
        self.map_shape = (shape[2], shape[0], shape[1]) if len(shape) == 3 else (self.width, 1, 1)

    def normalise(self, images: Tensor) -> Tensor:
        if images.dtype == torch.uint8:
            return images.permute(0, 3, 1, 2).float() / 255
        return images.float()

    def maps(self, x: Tensor) -> Tensor:
        return x if x.ndim == 4 else x[:, :, None, None]

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)
