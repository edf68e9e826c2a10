"""A library learner as a submission: the library's contract behind the starting kit's interface. Runs in the sandbox."""

from __future__ import annotations

import dataclasses
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from handful.data.collection import Card, Collection
from handful.methods.contract import Method, load
from handful.nets.compute import Compute
from handful.options import build
from handful.registry import get
from handful.tasks.anyway import AnyWay
from handful.tasks.episode import Query, Support


class MountedSets(Collection):
    """The mounted training data sets as one collection, read where they are."""

    def __init__(self, sets: list[Any]) -> None:
        self.sets = sets
        self.starts = np.cumsum([0, *(len(each.labels) for each in sets)])
        names = [each.name for each in sets for _ in range(len(each.labels))]
        labels = [f"{label:05d}" for each in sets for label in each.labels]
        shape = tuple(int(side) for side in sets[0].images.shape[1:])
        card = Card("mounted", "images", shape, ("category",), hash="mounted")
        super().__init__(card, pl.DataFrame({"dataset": names, "category": labels}))

    def read(self, rows: np.ndarray) -> np.ndarray:
        rows = np.asarray(rows, dtype=np.int64)
        which = np.searchsorted(self.starts, rows, side="right") - 1
        out = np.empty((len(rows), *self.card.shape), dtype=np.uint8)
        for number in np.unique(which):
            at = which == number
            out[at] = self.sets[number].images[rows[at] - self.starts[number]]
        return out


def _bytes(images: torch.Tensor) -> np.ndarray:
    """Tensors (n, c, h, w) in [0, 1] as the bytes (n, h, w, c) they came from."""
    return images.mul(255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()


def _method(facts: dict[str, Any], home: str) -> Method:
    text = json.dumps(facts["options"]).replace("{archive}", home)
    method = build(get("methods", facts["method"]), json.loads(text), "method.json")
    schedule = getattr(method, "schedule", None)
    if schedule is not None:
        return method.with_options(schedule=dataclasses.replace(schedule, seed=random.getrandbits(31)))
    return method.with_options(seed=random.getrandbits(31)) if hasattr(method, "seed") else method


def bridge(model_file: str) -> tuple[type, type]:
    """MyMetaLearner and MyLearner for the method that method.json beside ``model_file`` names."""
    from cdmetadl.api import api

    home = os.path.dirname(os.path.abspath(model_file))
    facts = json.loads(Path(home, "method.json").read_text(encoding="utf-8"))
    compute = Compute(threads=torch.get_num_threads())

    class MyPredictor(api.Predictor):  # type: ignore[name-defined,misc]
        def __init__(self, predictor: Any) -> None:
            self.predictor = predictor

        def predict(self, query_set: torch.Tensor) -> np.ndarray:
            scores = self.predictor.predict(Query(_bytes(query_set)))
            return np.nan_to_num(scores, nan=np.nan, neginf=-1e30)

    class MyLearner(api.Learner):  # type: ignore[name-defined,misc]
        def __init__(self, learner: Any = None) -> None:
            self.learner = learner

        def fit(self, support_set: Any) -> Any:
            images, labels, _, ways, _ = support_set
            seed = random.getrandbits(62)
            return MyPredictor(self.learner.fit(Support((ways,), _bytes(images), labels.numpy(), seed=seed)))

        def save(self, path_to_save: str) -> None:
            self.learner.save(Path(path_to_save, "model"))

        def load(self, path_to_load: str) -> None:
            self.learner = load(Path(path_to_load, "model"), compute)

    class MyMetaLearner(api.MetaLearner):  # type: ignore[name-defined,misc]
        def meta_fit(self, meta_train_generator: Any, meta_valid_generator: Any) -> Any:
            train = AnyWay(MountedSets(meta_train_generator.sets).whole, **_stage(facts["train"]))
            valid = None
            if meta_valid_generator is not None:
                valid = AnyWay(MountedSets(meta_valid_generator.sets).whole, **_stage(facts["valid"]))
            return MyLearner(_method(facts, home).meta_fit(train, valid, compute=compute))

    return MyMetaLearner, MyLearner


def _stage(given: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in given.items()}
