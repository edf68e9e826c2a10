"""How a published encoder wants its images: what its library does on Pillow images, done the same here, to the pixel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from handful.errors import BadInput


@dataclass(frozen=True)
class Preprocessing:
    """Resize, crop in the centre, scale to 0..1, normalise.

    Parameters
    ----------
    resize
        The shorter side in pixels, or ``(height, width)``; None leaves the size.
    crop
        ``(height, width)`` cut from the centre, black where the image is smaller; None cuts nothing.
    mean, std
        One value for each channel, on the scale 0..1.
    filter
        Pillow's resampling filter.
    rounds
        Whether an odd margin is rounded (as torchvision does) or cut short (as transformers does).
    """

    resize: int | tuple[int, int] | None
    crop: tuple[int, int] | None
    mean: tuple[float, ...]
    std: tuple[float, ...]
    filter: int = Image.Resampling.BICUBIC
    rounds: bool = False

    def __call__(self, images: Tensor, dtype: torch.dtype) -> Tensor:
        """uint8 ``(n, h, w, c)`` to floats ``(n, 3, height, width)``."""
        pixels = images.cpu().numpy()
        if pixels.shape[-1] == 1:
            pixels = pixels.repeat(3, -1)
        if (
            pixels.shape[1:3] != self.output(*pixels.shape[1:3])
            or self.resized(*pixels.shape[1:3]) != pixels.shape[1:3]
        ):
            pixels = np.stack([self.one(image) for image in pixels])
        x = torch.from_numpy(np.ascontiguousarray(pixels)).to(images.device).permute(0, 3, 1, 2).to(dtype) / 255
        mean, std = (torch.tensor(v, device=x.device, dtype=dtype).view(1, -1, 1, 1) for v in (self.mean, self.std))
        return (x - mean) / std

    def resized(self, h: int, w: int) -> tuple[int, int]:
        if self.resize is None:
            return h, w
        if isinstance(self.resize, tuple):
            return self.resize
        short = self.resize
        return (short, int(short * w / h)) if h <= w else (int(short * h / w), short)

    def output(self, h: int, w: int) -> tuple[int, int]:
        return self.crop or self.resized(h, w)

    def one(self, pixels: np.ndarray) -> np.ndarray:
        h, w = self.resized(*pixels.shape[:2])
        image = Image.fromarray(pixels)
        if (h, w) != pixels.shape[:2]:
            image = image.resize((w, h), Image.Resampling(self.filter))
        if self.crop is not None and self.crop != (h, w):
            high, wide = self.crop
            over = ((h - high) / 2, (w - wide) / 2)
            top, left = (round(v) if self.rounds else int(v // 1) for v in over)
            image = image.crop((left, top, left + wide, top + high))
        return np.asarray(image)


FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "random": Image.Resampling.BICUBIC,  # open_clip's word for either; it takes this one when not training
}


def of_transformers(facts: dict[str, Any], where: str) -> Preprocessing:
    """From what a ``preprocessor_config.json`` says."""
    try:
        resize = _sides(facts.get("size")) if facts.get("do_resize", True) else None
        crop = _sides(facts.get("crop_size")) if facts.get("do_center_crop", False) else None
        mean, std = (tuple(float(v) for v in facts.get(k) or ()) for k in ("image_mean", "image_std"))
        if not facts.get("do_normalize", True):
            mean, std = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
        if facts.get("do_pad") or len(mean) != 3 or len(std) != 3 or not all(std):
            raise ValueError("it pads, or has no mean and deviation of three channels")
        factor = float(facts.get("rescale_factor") or 1 / 255) if facts.get("do_rescale", True) else 1.0
        mean, std = (tuple(v / (factor * 255) for v in values) for values in (mean, std))
        square = (crop, crop) if isinstance(crop, int) else crop
        return Preprocessing(resize, square, mean, std, int(facts.get("resample", Image.Resampling.BILINEAR)))
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise BadInput(f"{where} says of its images what is not understood here ({error})") from error


def _sides(size: Any) -> int | tuple[int, int] | None:
    """transformers' ways of saying a size: a number, a shorter side, or height and width."""
    if size is None or isinstance(size, int):
        return (size, size) if size else None
    if set(size) >= {"height", "width"}:
        return int(size["height"]), int(size["width"])
    if set(size) == {"shortest_edge"}:
        return int(size["shortest_edge"])
    raise ValueError(f"size {size}")
