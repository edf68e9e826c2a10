"""The same images seen in other ways: by a net, borders alone, colours alone, thumbnails; computed once, when asked for.

A view is a features collection with the table, and so the tasks, of the images behind it: every rule and method works
on it as on any other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from handful.data.collection import Card, Collection, Part
from handful.nets.compute import Compute
from handful.nets.features import embed_images
from handful.progress import bar

Embed = Callable[[np.ndarray], np.ndarray]
BLOCK = 512
EDGE = 1 / 8
"""Share of an image's side that its border takes on each side."""


class View(Collection):
    """Features of a collection's images, each computed the first time that it is read.

    Parameters
    ----------
    of
        The collection behind it.
    embed
        From images ``(n, h, w, c)`` (or features) to features ``(n, d)``.
    width
        d.
    """

    def __init__(self, of: Collection, embed: Embed, width: int, title: str):
        context = of.card.context
        card: Card = dataclasses.replace(
            of.card, kind="features", shape=(width,), name=f"{of.card.name}[{title}]", context=context, source=title
        )
        super().__init__(card, of.table)
        self.of, self.title, self._embed = of, title, embed
        self._place = np.full(len(of), -1, dtype=np.int64)
        self._kept = np.empty((0, width), dtype=np.float32)
        self._n = 0

    @property
    def seen(self) -> int:
        """How many images have been looked at."""
        return self._n

    def read(self, rows: np.ndarray) -> np.ndarray:
        rows = np.asarray(rows, dtype=np.int64)
        wanted = np.unique(rows)
        new = wanted[self._place[wanted] < 0]
        if len(new):
            self._make_room(len(new))
            with bar(f"looking at images ({self.title})", len(new)) as advance:
                for start in range(0, len(new), BLOCK):
                    some = new[start : start + BLOCK]
                    self._kept[self._n : self._n + len(some)] = self._embed(self.of.read(some))
                    self._place[some] = np.arange(self._n, self._n + len(some))
                    self._n += len(some)
                    advance(len(some))
        return self._kept[self._place[rows]]

    def _make_room(self, more: int) -> None:
        if self._n + more > len(self._kept):
            larger = np.empty((max(self._n + more, 2 * len(self._kept)), self._kept.shape[1]), dtype=np.float32)
            larger[: self._n] = self._kept[: self._n]
            self._kept = larger

    def part(self, split: Any = None, scheme: str | None = None) -> Part:
        return super().part(split, scheme)

    def like(self, part: Part) -> Part:
        """The same rows of this view: the same tasks under the same seed."""
        return Part(self, part.scheme, part.split, part.rows)


def through(net: Any, compute: Compute) -> Embed:
    """A net's features."""

    def embed(images: np.ndarray) -> np.ndarray:
        with compute.here():
            return embed_images(net, images, compute).cpu().numpy()

    return embed


def given(features: np.ndarray) -> Embed:
    """Features that stand ready: the images behind the view are their own row numbers."""
    return lambda rows: features[rows]


def resized(images: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Area averages ``(n, rows, columns, c)``, float32 on the scale 0..1."""
    x = images.astype(np.float32) / 255
    down, across = averages(images.shape[1], rows), averages(images.shape[2], columns)
    return np.einsum("ih,nhwc,jw->nijc", down, x, across, optimize=True)


def averages(size: int, parts: int) -> np.ndarray:
    """``(parts, size)``: how much of each pixel lies in each of ``parts`` equal stretches, rows summing to one."""
    edges = np.linspace(0, size, parts + 1)
    low, high = edges[:-1, None], edges[1:, None]
    at = np.arange(size)[None, :]
    share = np.clip(np.minimum(high, at + 1) - np.maximum(low, at), 0, None)
    return (share / share.sum(1, keepdims=True)).astype(np.float32)


def thumbnails(side: int = 8) -> Embed:
    """The image at ``side`` x ``side`` pixels."""
    return lambda images: resized(images, side, side).reshape(len(images), -1)


def colours(bins: int = 4) -> Embed:
    """A histogram over ``bins`` steps of each channel together (``bins``² steps of a grey one), square roots of shares.

    Square roots make the Euclidean distance of two histograms Hellinger's.
    """

    def embed(images: np.ndarray) -> np.ndarray:
        n, channels = len(images), images.shape[-1]
        steps = bins if channels == 3 else bins * bins
        code = (images.astype(np.int64) * steps) >> 8
        flat = code[..., 0] if channels == 1 else (code[..., 0] * steps + code[..., 1]) * steps + code[..., 2]
        size = steps**channels
        flat = flat.reshape(n, -1)
        counts = np.bincount((flat + np.arange(n)[:, None] * size).ravel(), minlength=n * size).reshape(n, size)
        return np.sqrt(counts / flat.shape[1]).astype(np.float32)

    return embed


def colour_width(channels: int, bins: int = 4) -> int:
    return (bins if channels == 3 else bins * bins) ** channels


def borders(images: np.ndarray, edge: float = EDGE) -> np.ndarray:
    """The images with all but their borders painted over in the border's mean colour, so that the middle tells nothing."""
    height, width = images.shape[1:3]
    a, b = max(1, round(edge * height)), max(1, round(edge * width))
    inside = np.zeros((height, width), dtype=bool)
    inside[a : height - a, b : width - b] = True
    out = images.copy()
    mean = images[:, ~inside].mean(axis=1)
    out[:, inside] = np.rint(mean)[:, None, :].astype(images.dtype)
    return out
