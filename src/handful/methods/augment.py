"""Augmentation on tensors: random crop, flip and colour jitter, a pure function of a generator."""

from __future__ import annotations

import torch
from torch import Tensor


def augment(images: Tensor, kinds: tuple[str, ...], generator: torch.Generator) -> Tensor:
    """Augment uint8 images ``(n, h, w, c)``, each in its own way.

    ``crop`` shifts by up to an eighth of the side with reflected borders; ``flip`` mirrors half of them left to right;
    ``jitter`` scales brightness, contrast and saturation by factors from 0.6 to 1.4 (Chen et al., A closer look at
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


def _reflect(index: Tensor, n: int) -> Tensor:
    index = index.abs()
    return torch.where(index >= n, 2 * (n - 1) - index, index)
