"""The small VGG of the constrained clustering networks."""

from __future__ import annotations

from torch import Tensor, nn

from handful.errors import BadInput
from handful.nets.backbone import Backbone

FILTERS = (64, 128, 256, 256)


class VGGS(Backbone):
    """Four blocks of 3x3 convolution, batch norm, ReLU and 2x2 max-pooling with 64, 128, 256 and 256 filters.

    The backbone of Hsu, Lv, Kira ("Learning to cluster in order to transfer across domains and tasks", ICLR 2018) for
    Omniglot at 32x32, as in their public code (VGGS); the vector is the flattened last map, 1,024 at 32x32.
    """

    def __init__(self, shape: tuple[int, ...]):
        super().__init__(shape)
        if min(shape[:2]) < 16:
            raise BadInput(f"vggs halves its input four times and needs images of at least 16x16, not {shape[:2]}")
        blocks, channels = [], shape[2]
        for filters in FILTERS:
            layers = (nn.Conv2d(channels, filters, 3, padding=1), nn.BatchNorm2d(filters), nn.ReLU(), nn.MaxPool2d(2))
            blocks.append(nn.Sequential(*layers))
            channels = filters
        self.blocks = nn.Sequential(*blocks)
        self.map_shape = (channels, shape[0] // 16, shape[1] // 16)
        self.width = channels * self.map_shape[1] * self.map_shape[2]

    def maps(self, x: Tensor) -> Tensor:
        return self.blocks(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.maps(x).flatten(1)
