"""A part of a collection as PyTorch knows data: numbered pairs of a tensor and a class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

if TYPE_CHECKING:
    from handful.data.collection import Part


class TorchView(Dataset[tuple[Any, int]]):
    """Images as uint8 tensors (channels, height, width), or features as they are, each with its class number.

    Made by `Collection.torch`; a ``DataLoader`` reads it with any number of workers.

    Attributes
    ----------
    classes
        Names by number.
    targets
        The class number of every image.
    """

    def __init__(self, part: Part, transform: Callable[[Tensor], Any] | None = None):
        self.part, self.transform = part, transform
        self.classes, self.targets = part.class_names, part.classes.tolist()

    def __len__(self) -> int:
        return len(self.part)

    def __getitem__(self, i: int) -> tuple[Any, int]:
        if not -len(self) <= i < len(self):
            raise IndexError(f"{i} is none of {len(self)} images")
        return self.__getitems__([i])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[tuple[Any, int]]:
        """What a ``DataLoader`` asks for: a whole batch, read at once."""
        read = self.part.collection.read(self.part.rows[np.asarray(numbers, dtype=np.int64)])
        images = read.transpose(0, 3, 1, 2) if read.ndim == 4 else read
        tensors = torch.from_numpy(np.ascontiguousarray(images))
        return [
            (x if self.transform is None else self.transform(x), self.targets[i])
            for x, i in zip(tensors, numbers, strict=True)
        ]
