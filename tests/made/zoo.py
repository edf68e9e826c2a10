"""What the method tests share: random batches with padding, and 'trained beats untrained', paired."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from handful.methods.batch import Batch, pad
from handful.methods.embedded import Embedded
from made.patterns import blobs

WORLD = blobs(n_classes=30, each=30, size=32, noise=90.0, seed=3)
NOISY = blobs(n_classes=30, each=30, size=32, noise=200.0, seed=3)


def random_task(
    seed: int, shape: tuple[int, ...], ways: int = 3, shots: int = 2, queries: int = 4, labels: Any = None
) -> tuple[torch.Tensor, np.ndarray, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    y = np.repeat(np.arange(ways), shots) if labels is None else np.asarray(labels)
    y = y[np.random.default_rng(seed).permutation(len(y))]
    return torch.randn(len(y), *shape, generator=generator), y, torch.randn(queries, *shape, generator=generator)


def batch_of(*tasks: tuple[torch.Tensor, np.ndarray, torch.Tensor]) -> Batch:
    return pad(list(tasks), [(int(t[1].max()) + 1,) for t in tasks], list(range(len(tasks))))


def padded_is_alone(method: Embedded, shape: tuple[int, int, int] = (32, 32, 3), atol: float = 1e-4) -> None:
    """Tasks of unequal shapes in one padded batch answer as each would alone."""
    m = method.untrained(shape, 4).modules
    backbone: Any = m["backbone"]
    width = backbone.map_shape if method.maps else (backbone.width,)
    tasks = [
        random_task(0, width, ways=3, shots=1, queries=5),
        random_task(1, width, queries=3, labels=[0, 0, 0, 1, 2, 2, 3, 4, 4]),
        random_task(2, width, ways=7, shots=2, queries=2),
    ]
    with torch.no_grad():
        together = method.head(m, batch_of(*tasks))
        for i, task in enumerate(tasks):
            alone = method.head(m, batch_of(task))[0]
            torch.testing.assert_close(together[i, : alone.shape[0], : alone.shape[1]], alone, atol=atol, rtol=1e-4)
