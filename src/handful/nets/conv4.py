"""The four-block convolutional network of the few-shot literature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from handful.errors import BadInput
from handful.nets.backbone import Backbone

NORMS: dict[str, Callable[[int], nn.Module]] = {
    "batch": nn.BatchNorm2d,
    "group": lambda filters: nn.GroupNorm(8, filters),
    "layer": lambda filters: nn.GroupNorm(1, filters),
    "none": lambda filters: nn.Identity(),
}


class Conv4(Backbone):
    """Four blocks of 3x3 convolution, batch norm, ReLU and 2x2 max-pooling (Vinyals et al., NIPS 2016).

    The vector is the flattened last map (64 at 28x28, 1,600 at 84x84), as in Snell et al. 2017; ``pool=1`` averages it.
    Images of any size from 16x16 on, with one or three channels. Normalisation: x / 255. ``norm`` is ``batch``, ``group`` (eight
    groups), ``layer`` (one) or ``none``; the last three do not look at the other images of a batch. ``pools`` is how many of
    the blocks, the first ones, pool: with 2 an image of 84x84 has 21x21 = 441 places, as DN4 and CovaMNet were published;
    ``leak`` is the slope of the ReLU below zero, 0.2 in DN4 and CovaMNet (LibFewShot at 067efb7).
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        filters: int = 64,
        pool: int = 0,
        norm: Literal["batch", "group", "layer", "none"] = "batch",
        pools: int = 4,
        leak: float = 0.0,
    ):
        super().__init__(shape)
        if norm == "group" and filters % 8:
            raise BadInput(f"conv4 with norm=group needs a multiple of 8 filters, not {filters}")
        if not 0 <= pools <= 4:
            raise BadInput(f"conv4 has four blocks, of which {pools} cannot pool; give pools from 0 to 4")
        least = 2**pools
        if min(shape[:2]) < least:
            raise BadInput(
                f"conv4 halves its input {pools} times and needs images of at least {least}x{least}, not {shape[:2]}"
            )
        blocks = []
        for i in range(4):
            blocks.append(
                nn.Sequential(
                    nn.Conv2d(shape[2] if i == 0 else filters, filters, 3, padding=1),
                    NORMS[norm](filters),
                    nn.LeakyReLU(leak) if leak else nn.ReLU(),
                    nn.MaxPool2d(2) if i < pools else nn.Identity(),
                )
            )
        self.blocks = nn.Sequential(*blocks)
        self.pool = bool(pool)
        self.map_shape = (filters, shape[0] // least, shape[1] // least)
        self.width = filters if pool else filters * self.map_shape[1] * self.map_shape[2]

    def maps(self, x: Tensor) -> Tensor:
        return self.blocks(x)

    def forward(self, x: Tensor) -> Tensor:
        maps = self.maps(x)
        return maps.mean((2, 3)) if self.pool else maps.flatten(1)
