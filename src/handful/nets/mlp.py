"""A small fully connected network, for collections of feature vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from handful.errors import BadInput
from handful.nets.backbone import Backbone


class MLP(Backbone):
    """One hidden layer of ReLU units on features (or flattened pixels on the scale 0..1); ``hidden=0`` is a linear map.

    The vector has ``out`` entries, 64 by default.
    """

    def __init__(self, shape: tuple[int, ...], hidden: int = 128, out: int = 64):
        nn.Module.__init__(self)
        if hidden < 0 or out < 1:
            raise BadInput(f"mlp needs hidden of at least 0 and out of at least 1, not {hidden} and {out}")
        self.shape, self.width = shape, out  # type: ignore[assignment]
        self.map_shape = (out, 1, 1)
        inputs = int(torch.Size(shape).numel())
        layers: list[nn.Module] = (
            [nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, out)] if hidden else [nn.Linear(inputs, out)]
        )
        self.layers = nn.Sequential(*layers)

    def normalise(self, images: Tensor) -> Tensor:
        if images.dtype == torch.uint8:
            return (images.permute(0, 3, 1, 2).to(self.dtype) / 255).flatten(1)
        return images.to(self.dtype)

    def maps(self, x: Tensor) -> Tensor:
        return self.layers(x)[:, :, None, None]

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)
