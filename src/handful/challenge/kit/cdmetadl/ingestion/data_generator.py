"""Tasks and batches for meta-training, drawn inside the sandbox from the training data alone.

``generator(n)`` goes on where the last call stopped, so that no two calls give the same tasks.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

_STAGE = {"N": None, "min_N": 2, "max_N": 20, "k": None, "min_k": 1, "max_k": 20, "query_images_per_class": 20}
_TRAIN = {**_STAGE, "N": 5, "min_N": None, "max_N": None}


Part = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


class ConfigError(ValueError):
    """config.json asks for something that cannot be given."""


class Task:
    """One few-shot task: ``support_set`` and ``query_set`` are (images, labels, original labels)."""

    def __init__(
        self,
        num_ways: int,
        num_shots: int,
        support_set: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        query_set: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        original_class_idx: np.ndarray,
        dataset: str | None = None,
    ) -> None:
        self.num_ways = num_ways
        self.num_shots = num_shots
        self.support_set = support_set
        self.query_set = query_set
        self.original_class_idx = original_class_idx
        self.dataset = dataset


def to_tensor(images: np.ndarray) -> torch.Tensor:
    """Images (n, h, w, c) of bytes as RGB tensors (n, c, h, w) in [0, 1], as the starting kit gives them."""
    n, height, width, channels = images.shape
    # numpy asks for huge pages and divides on the way; torch would write all of it twice, page by page.
    out = np.empty((n, channels, height, width), np.float32)
    return torch.from_numpy(np.divide(images.transpose(0, 3, 1, 2), np.float32(255), out=out))


class ImageSet:
    """One training data set: memory-mapped images and their class numbers."""

    def __init__(self, folder: str, entry: dict[str, Any], first_class: int) -> None:
        self.name = str(entry["name"])
        self.images = np.load(os.path.join(folder, entry["images"]), mmap_mode="r", allow_pickle=False)
        self.labels = np.load(os.path.join(folder, entry["labels"]), allow_pickle=False)
        self.first_class = first_class
        self.valid = bool(entry.get("valid"))
        self.classes = [np.flatnonzero(self.labels == c) for c in range(int(self.labels.max()) + 1)]
        self.smallest = min(len(rows) for rows in self.classes)


def open_sets(folder: str) -> list[ImageSet]:
    """The training data sets mounted at ``folder``; classes are numbered through all of them."""
    with open(os.path.join(folder, "index.json"), encoding="utf-8") as file:
        entries = json.load(file)["datasets"]
    sets: list[ImageSet] = []
    for entry in entries:
        sets.append(ImageSet(folder, entry, sum(len(s.classes) for s in sets)))
    return sets


def read_config(path: str) -> dict[str, Any]:
    """A submission's config.json over the starting kit's defaults; ``test_config`` is not a submission's to set."""
    given: dict[str, Any] = {}
    if os.path.exists(path):
        try:
            with open(path, encoding="utf-8") as file:
                given = json.load(file)
        except ValueError as error:
            raise ConfigError(f"config.json is not JSON: {error}") from error
        except RecursionError:
            raise ConfigError("config.json is nested too deeply") from None
        except OSError as error:
            raise ConfigError(f"config.json is no file that can be read: {error.strerror}") from error
        if not isinstance(given, dict):
            raise ConfigError("config.json must hold an object")
    config = {
        "train_data_format": given.get("train_data_format", "task"),
        "batch_size": given.get("batch_size", 16),
        "validation_datasets": given.get("validation_datasets"),
        "train_config": _stage(given.get("train_config"), _TRAIN, "train_config"),
        "valid_config": _stage(given.get("valid_config"), _STAGE, "valid_config"),
    }
    if config["train_data_format"] not in ("task", "batch"):
        raise ConfigError("config.json: train_data_format must be task or batch")
    if config["batch_size"] is None:
        config["batch_size"] = 16
    for key, low, high in (("batch_size", 1, 4096), ("validation_datasets", 0, 9)):
        value = config[key]
        if value is not None and (type(value) is not int or not low <= value <= high):
            raise ConfigError(f"config.json: {key} must be a whole number from {low} to {high}")
    return config


def _stage(given: Any, default: dict[str, Any], where: str) -> dict[str, Any]:
    if given is None:
        return {**default, "asked": set()}
    if not isinstance(given, dict):
        raise ConfigError(f"config.json: {where} must be an object")
    unknown = sorted(set(given) - set(default))
    if unknown:
        raise ConfigError(f"config.json: {where} has the unknown key {unknown[0]}")
    stage = {**default, **given}
    asked = set(given)
    for key, value in stage.items():
        if value is not None and (type(value) is not int or value < 1):
            raise ConfigError(f"config.json: {where}.{key} must be a positive whole number or null")
    for fixed, low, high in (("N", "min_N", "max_N"), ("k", "min_k", "max_k")):
        if stage[fixed] is None and (stage[low] is None or stage[high] is None or stage[low] > stage[high]):
            raise ConfigError(f"config.json: {where} needs {fixed}, or {low} <= {high}")
    queries = stage["query_images_per_class"]
    if queries is None or queries > 20:
        raise ConfigError(f"config.json: {where}.query_images_per_class must be at most 20")
    return {**stage, "asked": asked}


class TaskGenerator:
    """``generator(n)`` yields n tasks, each from one data set drawn uniformly."""

    def __init__(self, sets: list[ImageSet], stage: dict[str, Any], seed: int) -> None:
        self.sets = sets
        self.stage = dict(stage)
        self.random = np.random.default_rng(seed)
        self._fit_queries()

    def _fit_queries(self) -> None:
        """The default number of queries gives way to small classes; what config.json asks for is given or refused."""
        stage, queries = self.stage, self.stage["query_images_per_class"]
        smallest = min(images.smallest for images in self.sets)
        least = stage["k"] or stage["min_k"]
        if least + queries > smallest and "query_images_per_class" not in stage["asked"]:
            queries = stage["query_images_per_class"] = max(1, smallest - least)
        if queries >= smallest:
            raise ConfigError(
                f"the smallest class has {smallest} images, which leaves none for the support beside {queries} queries"
            )

    def __call__(self, n: int) -> Iterator[Task]:
        for _ in range(n):
            yield self.draw()

    def _between(self, fixed: int | None, low: int, high: int, most: int, least: int) -> int:
        """A number as asked for, capped by what the data set has; a range that lies above it moves down, as in the kit."""
        if fixed is not None:
            return min(fixed, most)
        low = low if low <= most else max(least, most - (high - low))
        return int(self.random.integers(low, min(high, most) + 1))

    def draw(self) -> Task:
        """Draw the next task."""
        images = self.sets[int(self.random.integers(len(self.sets)))]
        stage, queries = self.stage, self.stage["query_images_per_class"]
        ways = self._between(stage["N"], stage["min_N"], stage["max_N"], len(images.classes), 2)
        shots = self._between(stage["k"], stage["min_k"], stage["max_k"], images.smallest - queries, 1)
        chosen = self.random.permutation(len(images.classes))[:ways]
        rows = np.stack([self.random.permutation(images.classes[c])[: shots + queries] for c in chosen])
        support = self._part(images, rows[:, :shots], chosen)
        query = self._part(images, rows[:, shots:], chosen)
        return Task(ways, shots, support, query, chosen + images.first_class, images.name)

    def _part(self, images: ImageSet, rows: np.ndarray, chosen: np.ndarray) -> Part:
        ways, each = rows.shape
        labels = np.repeat(np.arange(ways), each)
        order = self.random.permutation(ways * each)
        original = chosen[labels[order]] + images.first_class
        pixels = to_tensor(images.images[rows.reshape(-1)[order]])
        return pixels, torch.from_numpy(labels[order]), torch.from_numpy(original)


class BatchGenerator:
    """``generator(n)`` yields n batches (images, class numbers) from all data sets together, reshuffled each pass."""

    def __init__(self, sets: list[ImageSet], size: int, seed: int) -> None:
        self.sets = sets
        self.size = size
        self.random = np.random.default_rng(seed)
        self.where = np.concatenate(
            [np.stack([np.full(len(s.labels), i), np.arange(len(s.labels))], 1) for i, s in enumerate(sets)]
        )
        self.order = self.random.permutation(len(self.where))
        self.next = 0

    def __call__(self, n: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for _ in range(n):
            yield self.draw()

    def draw(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw the next batch."""
        if self.next >= len(self.order):
            self.order = self.random.permutation(len(self.where))
            self.next = 0
        picked = self.where[self.order[self.next : self.next + self.size]]
        self.next += self.size
        pixels = np.stack([self.sets[i].images[j] for i, j in picked])
        labels = np.array([self.sets[i].labels[j] + self.sets[i].first_class for i, j in picked])
        return to_tensor(pixels), torch.from_numpy(labels.astype(np.int64))


def make_generators(
    folder: str, config: dict[str, Any], seed: int
) -> tuple[Callable[[int], Iterator[Any]], TaskGenerator | None, int, int]:
    """Training and validation generators, the classes of training and all classes, as config.json asks."""
    sets = open_sets(folder)
    valid_sets = [images for images in sets if images.valid]
    sets = [images for images in sets if not images.valid]
    held_out = 0 if valid_sets else config["validation_datasets"] or 0
    if held_out >= len(sets):
        raise ConfigError(
            f"config.json: validation_datasets is {held_out}, but there are only {len(sets)} training sets"
        )
    order = np.random.default_rng([seed, 1]).permutation(len(sets))
    valid_sets += [sets[i] for i in sorted(order[:held_out])]
    train_sets = [sets[i] for i in sorted(order[held_out:])]
    first = 0
    for images in train_sets:
        images.first_class, first = first, first + len(images.classes)
    train: Callable[[int], Iterator[Any]]
    if config["train_data_format"] == "batch":
        train, classes = BatchGenerator(train_sets, config["batch_size"], seed), first
    else:
        stage = config["train_config"]
        tasks = TaskGenerator(train_sets, stage, seed)
        train, classes = tasks, tasks.stage["N"] or stage["max_N"]
    valid = TaskGenerator(valid_sets, config["valid_config"], seed + 1) if valid_sets else None
    return train, valid, classes, first
