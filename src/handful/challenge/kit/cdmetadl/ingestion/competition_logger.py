"""The logger handed to a MetaLearner: one line an iteration on standard output, nothing on disk."""

from __future__ import annotations

from typing import Any

import numpy as np

from .data_generator import Task


class Logger:
    """Counts iterations and prints accuracy and loss."""

    def __init__(self) -> None:
        self.train_iterations = 0
        self.valid_iterations = 0

    def log(self, data: Any, predictions: np.ndarray, loss: float | None = None, meta_train: bool = True) -> None:
        """Print how well ``predictions`` (logits, probabilities or labels) fit a task's queries or a batch."""
        truth = np.asarray(data.query_set[1] if isinstance(data, Task) else data[1])
        given = np.asarray(predictions)
        answers = given.argmax(1) if given.ndim == 2 else given
        line = f"accuracy {np.mean(answers == truth):.4f}"
        if loss is not None:
            line += f" loss {float(loss):.4f}"
        if isinstance(data, Task):
            line += f" [{data.num_ways}-way {data.num_shots}-shot, {data.dataset}]"
        if meta_train:
            self.train_iterations += 1
            print(f"meta-train {self.train_iterations}: {line}")
        else:
            self.valid_iterations += 1
            print(f"meta-valid {self.valid_iterations}: {line}")
