"""A submission to begin from: nearest class mean on pixels averaged over small squares.

Try it on your own machine:  handful challenge run FOLDER sample --phase public --tasks 5
"""

import json
import os

import numpy as np
import torch
import torch.nn.functional as F
from cdmetadl.api.api import Learner, MetaLearner, Predictor


def embed(images: torch.Tensor, side: int) -> torch.Tensor:
    """Images (n, 3, height, width) as vectors."""
    return F.adaptive_avg_pool2d(images, side).flatten(1)


class MyMetaLearner(MetaLearner):
    """Chooses the side of the squares on validation tasks; a better one trains a network here."""

    def meta_fit(self, meta_train_generator, meta_valid_generator) -> Learner:
        best_side, best_accuracy = 8, -1.0
        for side in (2, 4, 8):
            hits = []
            for task in (meta_valid_generator or meta_train_generator)(5):
                X, y, original = task.support_set
                predictor = MyLearner(side).fit((X, y, original, task.num_ways, task.num_shots))
                hits.append(np.mean(predictor.predict(task.query_set[0]).argmax(1) == task.query_set[1].numpy()))
            print(f"side {side}: accuracy {np.mean(hits):.3f}")
            if np.mean(hits) > best_accuracy:
                best_side, best_accuracy = side, float(np.mean(hits))
        return MyLearner(best_side)


class MyLearner(Learner):
    """Learns one task: the mean of each class."""

    def __init__(self, side: int = 8) -> None:
        super().__init__()
        self.side = side

    def fit(self, support_set) -> Predictor:
        X, y, _, n_ways, _ = support_set
        features = embed(X, self.side)
        return MyPredictor(torch.stack([features[y == c].mean(0) for c in range(n_ways)]), self.side)

    def save(self, path_to_save: str) -> None:
        with open(os.path.join(path_to_save, "side.json"), "w") as file:
            json.dump(self.side, file)

    def load(self, path_to_load: str) -> None:
        with open(os.path.join(path_to_load, "side.json")) as file:
            self.side = json.load(file)


class MyPredictor(Predictor):
    """Answers with minus the distance to each mean."""

    def __init__(self, means: torch.Tensor, side: int) -> None:
        super().__init__()
        self.means, self.side = means, side

    def predict(self, query_set: torch.Tensor) -> np.ndarray:
        return -torch.cdist(embed(query_set, self.side), self.means).numpy()
