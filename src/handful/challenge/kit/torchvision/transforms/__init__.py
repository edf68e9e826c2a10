"""Transforms of tensors, each with the meaning and the options that torchvision gives it; one draw for a whole batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from . import functional
from .functional import InterpolationMode

__all__ = [
    "CenterCrop",
    "Compose",
    "InterpolationMode",
    "Normalize",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomVerticalFlip",
    "Resize",
    "functional",
]


class Compose:
    """One after another."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, image: Any) -> Any:
        for transform in self.transforms:
            image = transform(image)
        return image


class Normalize(nn.Module):
    """(x - mean) / std for each channel."""

    def __init__(self, mean: Sequence[float] | float, std: Sequence[float] | float, inplace: bool = False) -> None:
        super().__init__()
        self.mean, self.std = mean, std

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.normalize(tensor, self.mean, self.std)


class RandomHorizontalFlip(nn.Module):
    """Left and right change places with probability p."""

    flip = staticmethod(functional.hflip)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, tensor: Tensor) -> Tensor:
        return self.flip(tensor) if torch.rand(1) < self.p else tensor


class RandomVerticalFlip(RandomHorizontalFlip):
    """Top and bottom change places with probability p."""

    flip = staticmethod(functional.vflip)


class RandomCrop(nn.Module):
    """A window anywhere, after padding with zeros."""

    def __init__(self, size: int | Sequence[int], padding: int | Sequence[int] | None = None) -> None:
        super().__init__()
        self.height, self.width = (size, size) if isinstance(size, int) else (size[0], size[-1])
        self.padding = padding

    def forward(self, tensor: Tensor) -> Tensor:
        if self.padding is not None:
            tensor = functional.pad(tensor, self.padding)
        room = tensor.shape[-2] - self.height + 1, tensor.shape[-1] - self.width + 1
        if min(room) < 1:
            raise ValueError(f"a window of {self.height} x {self.width} does not fit into {tuple(tensor.shape[-2:])}")
        top, left = (int(torch.randint(n, (1,))) for n in room)
        return functional.crop(tensor, top, left, self.height, self.width)


class CenterCrop(nn.Module):
    """The window in the middle."""

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = size

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.center_crop(tensor, self.size)


class Resize(nn.Module):
    """To (height, width); a single number is the shorter side."""

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: InterpolationMode = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size, self.interpolation, self.antialias = size, interpolation, antialias

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.resize(tensor, self.size, self.interpolation, antialias=self.antialias)
