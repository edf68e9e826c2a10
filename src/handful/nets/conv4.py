"""The four-block convolutional network of the few-shot literature."""

from __future__ import annotations

from torch import Tensor, nn

from handful.errors import BadInput
from handful.nets.backbone import Backbone


class Conv4(Backbone):
    """Four blocks of 3x3 convolution, batch norm, ReLU and 2x2 max-pooling (Vinyals et al., NIPS 2016).

    The vector is the flattened last map (64 at 28x28, 1,600 at 84x84), as in Snell et al. 2017; ``pool=1`` averages it.
    Images of any size from 16x16 on, with one or three channels. Normalisation: x / 255.
    """

    def __init__(self, shape: tuple[int, ...], filters: int = 64, pool: int = 0):
        super().__init__(shape)
        if min(shape[:2]) < 16:
            raise BadInput(f"conv4 halves its input four times and needs images of at least 16x16, not {shape[:2]}")
        blocks = []
        for i in range(4):
            blocks.append(
                nn.Sequential(
                    nn.Conv2d(shape[2] if i == 0 else filters, filters, 3, padding=1),
                    nn.BatchNorm2d(filters),
                    nn.ReLU(),
                    nn.MaxPool2d(2),
                )
            )
        self.blocks = nn.Sequential(*blocks)
        self.pool = bool(pool)
        self.map_shape = (filters, shape[0] // 16, shape[1] // 16)
        self.width = filters if pool else filters * self.map_shape[1] * self.map_shape[2]

    def maps(self, x: Tensor) -> Tensor:
        return self.blocks(x)

    def forward(self, x: Tensor) -> Tensor:
        maps = self.maps(x)
        return maps.mean((2, 3)) if self.pool else maps.flatten(1)
