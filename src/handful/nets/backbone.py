"""What every backbone is: a module that states its normalisation and its output, and gives maps or vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from handful.errors import BadInput, Mismatch
from handful.options import Checked


class Backbone(nn.Module, metaclass=Checked):
    """Base of the backbones.

    Parameters
    ----------
    shape
        ``(h, w, c)`` of the images it will be given.

    Attributes
    ----------
    mean, std
        Input normalisation on the scale 0..1, one value a channel or one for all.
    width
        Length of the vector that `forward` gives; `map_shape` is that of `maps`.
    installed, frozen, portable
        Whether its weights are found again by its spec (they come with a package, or from where the spec says); whether it is
        used as it is, never trained here; whether a model folder can take it along.
    code
        What it computes with beside its weights, where that may change under the same spec: a file's hash, a library's version.
    kept
        Whether its features may be kept: all that it computes with is known by its classes, options and weights.
    seen
        What its weights were trained on, in words: a score on images like those says less.
    caution
        What must stand beside every number of it.
    says, sharpness
        Whether it has a text side, `texts`; and what cosines of images and texts are multiplied by to be logits.
    """

    installed: ClassVar[bool] = False
    frozen: ClassVar[bool] = False
    portable: ClassVar[bool] = True
    kept: ClassVar[bool] = True
    code: str = ""
    seen: ClassVar[str] = ""
    caution: ClassVar[str] = ""
    says: bool = False
    sharpness: float = 100.0

    mean: ClassVar[tuple[float, ...]] = (0.0,)
    std: ClassVar[tuple[float, ...]] = (1.0,)
    size: int | None = None
    width: int
    map_shape: tuple[int, int, int]

    def __init__(self, shape: tuple[int, ...]):
        super().__init__()
        if len(shape) != 3:
            raise BadInput(f"{type(self).__name__} takes images (h, w, c), not shape {shape}; use the net 'pixels'")
        self.shape: tuple[int, ...] = shape

    def normalise(self, images: Tensor) -> Tensor:
        """uint8 ``(n, h, w, c)`` to the float ``(n, c, h, w)`` this backbone was made for."""
        x = images.permute(0, 3, 1, 2).to(self.dtype) / 255
        if self.size is not None and x.shape[-1] != self.size:
            x = F.interpolate(x, size=(self.size, self.size), mode="bilinear", align_corners=False, antialias=True)
        mean = torch.tensor(self.mean, device=x.device, dtype=x.dtype).view(1, -1, 1, 1)
        std = torch.tensor(self.std, device=x.device, dtype=x.dtype).view(1, -1, 1, 1)
        return (x - mean) / std

    @property
    def core(self) -> nn.Module:
        """The module whose names a file of weights uses."""
        return self

    @classmethod
    def trained_on(cls, options: Mapping[str, str]) -> str:
        """`seen` of the weights that a spec's options choose."""
        return cls.seen

    def texts(self, texts: list[str]) -> Tensor:
        """Vectors ``(n, width)`` of texts, in the space of `forward`'s."""
        raise Mismatch(
            f"{type(self).__name__} has no text side; take lite2+minilm, clip:folder=PATH, or an hf: or open_clip: model of "
            "images and texts"
        )

    def named(self, name: str, prompts: Sequence[str], raw: bool = False) -> Tensor:
        """The unit vector ``(width,)`` of a class: the mean of its prompts' unit vectors (templates with ``{}``), at length 1;
        or the ``raw`` mean of what the text side gives."""
        found = self.texts([prompt.format(name) for prompt in prompts]).float()
        if raw:
            return found.mean(0)
        each = F.normalize(found, dim=-1)
        return F.normalize(each.mean(0), dim=0)

    @property
    def dtype(self) -> torch.dtype:
        parameter = next(self.parameters(), None)
        return torch.float32 if parameter is None else parameter.dtype

    def maps(self, x: Tensor) -> Tensor:
        """Feature maps ``(n, c, h, w)`` of normalised images."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        """Vectors ``(n, width)`` of normalised images: the maps averaged over place."""
        return self.maps(x).mean((2, 3))


def initialise(module: nn.Module) -> None:
    """He's normal initialisation (fan-out) for convolutions, ones and zeros for batch norm."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.BatchNorm2d):
            nn.init.ones_(layer.weight)
            nn.init.zeros_(layer.bias)
