"""What choosing a method's options on labelled images is worth: chosen on test, on images that cost nothing, or honestly."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from handful.errors import BadInput, Mismatch
from handful.methods.answering import one_by_one
from handful.methods.contract import Method
from handful.metrics.base import Estimate, mean_interval
from handful.nets.compute import Compute
from handful.progress import bar
from handful.runs.embedding import embed_needed
from handful.runs.learners import answering, chosen, rule_of
from handful.runs.scoring import ScoringJob, embedded_scores
from handful.tasks.episode import Episode
from handful.tasks.rule import Rule

FOLDS = 4
WAYS = {
    "default": "with the options as they are",
    "test": "chosen on the test images",
    "free": "chosen on other images that cost nothing",
    "honest": "chosen within the support",
}
Ask = Callable[[int, list[Episode]], list[np.ndarray]]


@dataclass(frozen=True, eq=False)
class Verdict:
    """Accuracies of one method with its options chosen in different ways, on the same tasks.

    ``frame`` has a row per task: the accuracy with default options and with those chosen on the test images, on free images and
    honestly, and what was chosen each time.
    """

    method: str
    collection: str
    tried: int
    free: int
    divided: bool
    frame: pl.DataFrame

    @cached_property
    def numbers(self) -> dict[str, Estimate]:
        """Mean accuracy by way of choosing."""
        return {way: mean_interval(self.frame[way].to_numpy()) for way in WAYS}

    @cached_property
    def bonus(self) -> dict[str, Estimate]:
        """What choosing on ``test`` and on ``free`` images gains over the honest number, paired by task."""
        honest = self.frame["honest"].to_numpy()
        return {way: mean_interval(self.frame[way].to_numpy() - honest) for way in ("test", "free")}

    def as_dict(self) -> dict[str, Any]:
        facts = {"method": self.method, "collection": self.collection, "options tried": self.tried}
        facts |= {"tasks": len(self.frame), "free images of each class": self.free}
        numbers = {way: e.as_dict() for way, e in self.numbers.items()}
        return {**facts, "accuracy": numbers, "bonus": {way: e.as_dict() for way, e in self.bonus.items()}}

    def __str__(self) -> str:
        lines = [f"{self.method} on {self.collection}: {len(self.frame)} tasks, {self.tried} choices of options"]
        for way, words in WAYS.items():
            more = f" ({self.free} of each class)" if way == "free" else ""
            lines.append(f"  {self.numbers[way]!s:<15} {words}{more}")
        for way, words in (("test", "on test"), ("free", "on free images")):
            e = self.bonus[way]
            verdict = (
                "nothing that can be told from 0" if e.low <= 0 <= e.high else "a bonus" if e.low > 0 else "a loss"
            )
            lines.append(f"  {e!s:<15} gained by choosing {words} over the honest number: {verdict}")
        if not self.divided:
            lines.append("  a support with one image of a class cannot be divided: the honest number is the default's")
        return "\n".join(lines)


def court(
    method: str | Method,
    asked: Any,
    *,
    tries: Mapping[str, Sequence[Any]] | None = None,
    n: int = 100,
    seed: int = 0,
    free: int = 4,
    compute: Compute | None = None,
) -> Verdict:
    """Judge a method by three numbers: its options chosen on test, on free images, and honestly.

    Parameters
    ----------
    method
        A method or its name.
    asked
        A rule, or a part or collection for the usual 5-way 5-shot tasks: labelled images.
    tries
        Options and the values to choose among; by default the method's ``grid``. Every combination is tried.
    n, seed
        Number of tasks and the drawing seed. Every task chooses for itself.
    free
        How many of each class's queries serve as free validation images; the others are the test.

    Notes
    -----
    Honest means that every labelled image that helps to choose is support: the support is divided into folds (4, or as many as
    its smallest class has images), each combination is judged on the folds left out, and the best is fitted again on the whole.
    Ties go to the default options. All ways are tried on the same supports and scored on the same test images, so the
    differences are paired.
    """
    made = chosen(method)
    if not isinstance(made, Method):
        raise BadInput("court chooses a method's options; give a method's name, not a trained model")
    rule = rule_of(asked)
    if "labels" not in rule.shows or rule.axes != 1:
        raise Mismatch(f"court needs tasks with labelled images and one label axis, which {rule.name} tasks are not")
    if n < 2 or free < 1:
        raise BadInput(f"court needs at least 2 tasks and 1 free image of each class, not {n} and {free}")
    methods = combinations(made, tries)
    learners = []
    for each in methods:
        learner, rule = answering(each, rule, compute)
        learners.append(learner)
    episodes = [e for start in range(0, n, 64) for e in rule.draw_block(seed, start, min(start + 64, n))]
    cuts = [cut(e, free) for e in episodes]
    divisions = [folds(e) for e in episodes]
    with learners[0].compute.here(), bar(f"judging {made.name}", len(learners) * n) as advance:
        ask = asking(learners, rule, seed, n)
        whole, inside = [], []
        for k in range(len(learners)):
            scores = ask(k, episodes)
            whole.append([s.argmax(1) == e.query_labels for s, e in zip(scores, episodes, strict=True)])
            flat = [piece for pieces in divisions for piece in pieces]
            right = iter(
                [s.argmax(1) == e.query_labels for s, e in zip(ask(k, flat), flat, strict=True)] if flat else []
            )
            inside.append(
                [np.concatenate([next(right) for _ in pieces]).mean() if pieces else 0.0 for pieces in divisions]
            )
            advance(n)
    rows = []
    for i, (validation, test) in enumerate(cuts):
        on_test = [whole[k][i][test].mean() for k in range(len(learners))]
        judged = {
            "test": on_test,
            "free": [whole[k][i][validation].mean() for k in range(len(learners))],
            "honest": [inside[k][i] for k in range(len(learners))],
        }
        row: dict[str, Any] = {"task": episodes[i].number, "default": float(on_test[0])}
        for way, by in judged.items():
            best = int(np.argmax(by))  # the first of equals, and the default is the first of all
            row |= {way: float(on_test[best]), f"{way} chose": named(methods[best], methods[0])}
        rows.append(row)
    divided = all(divisions)
    name = rule.part.collection.card.name
    return Verdict(made.name, name, len(methods), free, divided, pl.DataFrame(rows, infer_schema_length=None))


def combinations(method: Method, tries: Mapping[str, Sequence[Any]] | None) -> list[Method]:
    """The method as it is, and with every combination of the options that are tried, each once."""
    grid = dict(tries if tries is not None else getattr(method, "grid", {}))
    if not grid:
        raise BadInput(f"{method.name} names no options to choose; say which and their values: --try OPTION=A,B,C")
    made = [method.with_options(**dict(zip(grid, values, strict=True))) for values in itertools.product(*grid.values())]
    return list(dict.fromkeys([method, *made]))


def asking(learners: list[Any], rule: Rule, seed: int, n: int) -> Ask:
    """Scores of any tasks made of the images of the first n; where all learners embed alike, each image is embedded once."""
    jobs: dict[int, ScoringJob] = {}
    kept: dict[Any, Any] = {}

    def ask(k: int, episodes: list[Episode]) -> list[np.ndarray]:
        learner = learners[k]
        if not learner.embeds:
            return [one_by_one(learner, rule, e)[0] for e in episodes]
        if k not in jobs:
            jobs[k] = job = ScoringJob(learner, rule, rule.metrics, (seed,), n, False)
            key = (str(getattr(learner.method, "net", "")), learner.method.maps, learner.method.trains != "no" and k)
            if key not in kept:
                kept[key] = embed_needed(job, list(range(job.per_repeat)), 1, None, True)
            job.features = kept[key]
        return [
            scores
            for start in range(0, len(episodes), 64)
            for scores, _ in embedded_scores(jobs[k], episodes[start : start + 64])
        ]

    return ask


def cut(episode: Episode, free: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of the queries that serve as free validation images (so many of each class) and of those that test."""
    place = np.zeros(len(episode.query), dtype=np.int64)
    for c in range(episode.n_classes):
        own = np.flatnonzero(episode.query_labels == c)
        if len(own) <= free:
            raise BadInput(f"a class has {len(own)} queries, of which {free} were to be free; ask for more queries")
        place[own] = np.arange(len(own))
    return np.flatnonzero(place < free), np.flatnonzero(place >= free)


def folds(episode: Episode) -> list[Episode]:
    """The support divided: each fold asked of the others; nothing where a class has one image only."""
    labels = episode.support_labels
    sizes = np.bincount(labels, minlength=episode.n_classes)
    count = min(FOLDS, int(sizes.min()))
    if count < 2:
        return []
    fold = np.zeros(len(labels), dtype=np.int64)
    for c in range(episode.n_classes):
        own = np.flatnonzero(labels == c)
        fold[own] = np.arange(len(own)) % count
    return [
        dataclasses.replace(
            episode,
            support=episode.support[fold != f],
            support_labels=labels[fold != f],
            query=episode.support[fold == f],
            query_labels=labels[fold == f],
        )
        for f in range(count)
    ]


def named(method: Method, default: Method) -> str:
    """The options in which a method differs from the default."""
    mine, theirs = method.options(), default.options()
    return ", ".join(f"{k}={v}" for k, v in mine.items() if v != theirs.get(k)) or "default"
