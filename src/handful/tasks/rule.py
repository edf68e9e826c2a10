"""Rules: pure functions from (seed, number) to an Episode; and what a rule gives a learner to train on."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from handful import registry
from handful.data.collection import Part
from handful.errors import BadInput
from handful.options import Checked
from handful.tasks import random
from handful.tasks.episode import Episode, Query, Support, Task

BLOCK = 64


@dataclass(frozen=True)
class Rule(metaclass=Checked):
    """Draws tasks from a part. Subclasses are frozen dataclasses whose fields are the rule's parameters.

    `draw_block` must give, for each number, the episode that `draw` gives.
    """

    part: Part

    name: ClassVar[str] = ""

    @property
    def shows(self) -> frozenset[str]:
        """What of the support a learner may see."""
        return frozenset({"images", "labels"})

    @property
    def axes(self) -> int:
        """How many label axes the tasks have."""
        return 1

    @property
    def metrics(self) -> tuple[str, ...]:
        """How the tasks are scored unless one says otherwise."""
        return ("accuracy",)

    def at_least(self, **least: int) -> None:
        """Refuse parameters that are too small."""
        for what, bound in least.items():
            if (value := getattr(self, what)) < bound:
                raise BadInput(f"{what} must be a whole number of at least {bound}, not {value!r}")

    @classmethod
    def from_options(cls, options: Mapping[str, Any], beside: Mapping[str, Any]) -> Rule:
        """A rule from ``{rule = "n-way", ways = 5, ...}``, on the part of what it is an option of."""
        own = {k: v for k, v in options.items() if k not in ("rule", "part")}
        return registry.make("rules", options.get("rule", "n-way"), own, beside["part"])

    def on(self, part: Part) -> Rule:
        """The same rule on another part."""
        return dataclasses.replace(self, part=part)

    def check(self) -> None:
        """Raise `Infeasible`, naming what is short, if the part cannot serve this rule."""

    def draw_block(self, seed: int, start: int, stop: int) -> list[Episode]:
        raise NotImplementedError

    def draw(self, seed: int, number: int) -> Episode:
        return self.draw_block(seed, number, number + 1)[0]

    @property
    def parameters(self) -> dict[str, Any]:
        """The rule's name and fields, without the part: what identifies the drawing beside part and seed.

        A field that came later (``metadata={"later": True}``) is left out at its default, so that older results stay known.
        """
        own = {f: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "part"}
        fields = {f.name: v for f, v in own.items() if not (f.metadata.get("later") and v == f.default)}
        return {"rule": self.name, **{k: _plain(v) for k, v in fields.items()}}

    def tasks_id(self, seed: int) -> str:
        """Equal for two runs exactly when they were asked the same tasks."""
        text = json.dumps([self.part.id, self.parameters, seed], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    # what a learner trains on

    def episodes(self, seed: int, start: int = 0) -> Iterator[Episode]:
        """Episodes without end from number ``start`` on."""
        while True:
            stop = (start // BLOCK + 1) * BLOCK
            yield from self.draw_block(seed, start, stop)
            start = stop

    def tasks(self, seed: int, start: int = 0) -> Iterator[Task]:
        """Training tasks without end, pixels read."""
        for episode in self.episodes(seed, start):
            yield self.read(episode)

    def batches(self, seed: int, size: int, start: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Batches ``(images, class numbers)`` without end, over all images of the part in a new order each epoch."""
        for rows, classes in self.batch_rows(seed, size, start):
            yield self.part.collection.read(rows), classes

    def batch_rows(self, seed: int, size: int, start: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        n = len(self.part)
        size = min(size, n)
        per_epoch = n // size
        epoch, order = -1, np.arange(0)
        while True:
            if start // per_epoch != epoch:
                epoch = start // per_epoch
                order = np.argsort(random.words(seed, "epoch", np.asarray([epoch]), n)[0], kind="stable")
            at = (start % per_epoch) * size
            pick = order[at : at + size]
            yield self.part.rows[pick], self.part.classes[pick]
            start += 1

    @property
    def n_classes(self) -> int:
        """How many classes `batches` can answer with."""
        return self.part.n_classes

    @property
    def image_shape(self) -> tuple[int, ...]:
        return self.part.collection.card.shape

    def support(self, episode: Episode) -> Support:
        """The learner's side of an episode: what it shows, and nothing else."""
        shows = episode.shows
        return Support(
            shape=episode.shape,
            images=self.part.collection.read(episode.support) if "images" in shows else None,
            labels=episode.support_labels if "labels" in shows else None,
            sizes=episode.sizes() if "sizes" in shows else None,
            descriptions=episode.descriptions if "descriptions" in shows else None,
            seed=episode.seed,
            texts=episode.shown_texts(),
        )

    def read(self, episode: Episode) -> Task:
        query = Query(self.part.collection.read(episode.query))
        return Task(self.support(episode), query, episode.query_labels, episode)


def make(name: str, part: Part, **options: Any) -> Rule:
    """A registered rule on a part; a rule that wraps another takes it as ``of = {"rule": "n-way", "ways": 5}``."""
    return registry.make("rules", name, options, part)


def _plain(value: Any) -> Any:
    if isinstance(value, Rule):
        return {**value.parameters, "part": value.part.id}
    if isinstance(value, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    if isinstance(value, (str, int, float, bool, type(None), list, dict)):
        return value
    return str(value)


def whole_range(value: int | tuple[int, int], what: str, least: int = 1) -> tuple[int, int]:
    """A number or a (low, high) pair as a pair, checked."""
    low, high = (value, value) if isinstance(value, (int, np.integer)) else tuple(value)
    if low < least or high < low:
        raise BadInput(f"{what} must be at least {least} and given as N or LOW-HIGH, not {low}-{high}")
    return int(low), int(high)
