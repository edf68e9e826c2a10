"""A small fully connected network, for collections of feature vectors."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from handful.errors import BadInput
from handful.nets.backbone import Backbone


class MLP(Backbone):
    """One hidden layer of ReLU units on features (or flattened pixels on the scale 0..1); ``hidden=0`` is a linear map.

    The vector has ``out`` entries, 64 by default. With ``out=0`` the layers are added to the features and begin at
    zero, so that training starts from the features as they are.
    """

    def __init__(self, shape: tuple[int, ...], hidden: int = 128, out: int = 64):
        nn.Module.__init__(self)
        if hidden < 0 or out < 0:
            raise BadInput(f"mlp needs hidden and out of at least 0, not {hidden} and {out}")
        inputs = int(torch.Size(shape).numel())
        self.residual, out = out == 0, out or inputs
        self.shape, self.width = shape, out  # type: ignore[assignment]
        self.map_shape = (out, 1, 1)
        layers: list[nn.Module] = (
            [nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, out)] if hidden else [nn.Linear(inputs, out)]
        )
        self.layers = nn.Sequential(*layers)
        if self.residual:
            for p in self.layers[-1].parameters():
                nn.init.zeros_(p)

    def normalise(self, images: Tensor) -> Tensor:
        if images.dtype == torch.uint8:
            return (images.permute(0, 3, 1, 2).to(self.dtype) / 255).flatten(1)
        return images.to(self.dtype)

    def maps(self, x: Tensor) -> Tensor:
        return self(x)[:, :, None, None]

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)
