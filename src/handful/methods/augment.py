"""Augmentation on tensors: random crop, resized crop, flip and colour jitter, a pure function of a generator."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def augment(images: Tensor, kinds: tuple[str, ...], generator: torch.Generator) -> Tensor:
    """Augment uint8 images ``(n, h, w, c)``, each in its own way.

    ``crop`` shifts by up to an eighth of the side with reflected borders; ``resized-crop`` cuts out a rectangle of 8% to
    100% of the area, 3/4 to 4/3 as wide as high, and stretches it to the image's size, as torchvision's
    RandomResizedCrop does; ``flip`` mirrors half of them left to right; ``jitter`` scales brightness, contrast and saturation by factors from 0.6 to 1.4 (Chen et al., A closer look at
    few-shot classification, ICLR 2019, uses 0.4).
    """
    if not kinds:
        return images
    n, h, w, c = images.shape
    device = images.device

    def draw(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator).to(device)

    if "crop" in kinds:
        reach = max(1, h // 8)
        rows = torch.arange(h, device=device) + (draw(n, 1) * (2 * reach + 1)).long() - reach
        columns = torch.arange(w, device=device) + (draw(n, 1) * (2 * reach + 1)).long() - reach
        rows, columns = _reflect(rows, h), _reflect(columns, w)
        images = images[torch.arange(n, device=device)[:, None, None], rows[:, :, None], columns[:, None, :]]
    if "resized-crop" in kinds:
        images = _resized(images, draw(4, n))
    if "flip" in kinds:
        mirrored = (draw(n) < 0.5).view(n, 1, 1, 1)
        images = torch.where(mirrored, images.flip(2), images)
    if "jitter" in kinds:
        brightness, contrast, saturation = (0.6 + 0.8 * draw(3, n)).view(3, n, 1, 1, 1)
        x = images.float() * brightness
        grey = x.mean(-1, keepdim=True)
        x = grey.mean((1, 2), keepdim=True) * (1 - contrast) + x * contrast
        if c == 3:
            grey = x.mean(-1, keepdim=True)
            x = grey * (1 - saturation) + x * saturation
        images = x.round().clamp(0, 255).to(torch.uint8)
    return images


def _resized(images: Tensor, drawn: Tensor) -> Tensor:
    """A rectangle of each image at the image's size; ``drawn`` ``(4, n)`` in 0..1 are its area, form, column and row."""
    n, h, w, _ = images.shape
    area = h * w * (0.08 + 0.92 * drawn[0])
    ratio = torch.exp(math.log(4 / 3) * (2 * drawn[1] - 1))
    wide, high = (area * ratio).sqrt().clamp(1, w), (area / ratio).sqrt().clamp(1, h)
    left, top = drawn[2] * (w - wide), drawn[3] * (h - high)
    # pixel i of the result is seen at (i + 1/2) of its share of the rectangle; grid_sample counts from -1 to 1 between borders
    x = (left[:, None] + (torch.arange(w, device=images.device) + 0.5) / w * wide[:, None]) / w * 2 - 1
    y = (top[:, None] + (torch.arange(h, device=images.device) + 0.5) / h * high[:, None]) / h * 2 - 1
    grid = torch.stack([x[:, None, :].expand(n, h, w), y[:, :, None].expand(n, h, w)], -1)
    out = F.grid_sample(images.permute(0, 3, 1, 2).float(), grid, padding_mode="border", align_corners=False)
    return out.permute(0, 2, 3, 1).round().clamp(0, 255).to(torch.uint8)


def _reflect(index: Tensor, n: int) -> Tensor:
    index = index.abs()
    return torch.where(index >= n, 2 * (n - 1) - index, index)
