"""What runs answered: where methods disagree most, and one task's confusion; from the answers if kept, else from the scores."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import polars as pl

from handful.report.comparison import Comparison

UNLABELLED = {"clustering", "unsupervised"}


@dataclass(frozen=True)
class Disputed:
    """A task and how far the methods are apart on it."""

    repeat: int
    task: int
    value: float
    scores: dict[str, float]


def answered(comparison: Comparison) -> dict[str, pl.DataFrame]:
    """Answers by method, of those that kept them (of the first training seed); clusters have no names to compare."""
    if UNLABELLED & set(comparison.identity["metrics"]):
        return {}
    keys = ["repeat", "task", "query"]
    found = {
        label: next((r.answers for r in runs if r.answers is not None), None) for label, runs in comparison.runs.items()
    }
    return {label: frame.sort(keys, maintain_order=True) for label, frame in found.items() if frame is not None}


def disputed(comparison: Comparison, most: int = 3) -> tuple[list[Disputed], str]:
    """The tasks with the largest disagreement, and what disagreement means here.

    With answers of at least two methods: the share of queries to which two methods gave different answers, averaged over
    pairs of methods. Else: the distance between the best and the worst method's score.
    """
    if len(comparison.labels) < 2 or most < 1:
        return [], ""
    answers = answered(comparison)
    tasks = comparison.tasks.select("repeat", "task")
    if len(answers) > 1:
        meaning = "share of queries answered differently, averaged over pairs of methods"
        frames = list(answers.values())
        apart = [
            (a["predicted"] != b["predicted"]).cast(pl.Float64).alias(str(i))
            for i, (a, b) in enumerate(combinations(frames, 2))
        ]
        each = (
            frames[0]
            .select("repeat", "task")
            .with_columns(value=pl.mean_horizontal(*apart) if len(apart) > 1 else apart[0])
        )
        value = tasks.join(
            each.group_by("repeat", "task").agg(pl.col("value").mean()),
            on=["repeat", "task"],
            how="left",
            maintain_order="left",
        )["value"].to_numpy()
    else:
        meaning = "distance between the best and the worst method's score"
        value = (
            np.nanmax(comparison.scores, 1) - np.nanmin(comparison.scores, 1) if len(comparison.scores) else np.zeros(0)
        )
    order = np.argsort(-np.nan_to_num(value, nan=-1.0), kind="stable")[:most]
    found = []
    for at in order:
        if value[at] > 0:
            repeat, task = tasks.row(int(at))
            scores = {label: float(s) for label, s in zip(comparison.labels, comparison.scores[at], strict=True)}
            found.append(Disputed(repeat, task, float(value[at]), scores))
    return found, meaning


def of_task(frame: pl.DataFrame, repeat: int, task: int) -> pl.DataFrame:
    return frame.filter((pl.col("repeat") == repeat) & (pl.col("task") == task))


def confusion(frame: pl.DataFrame, repeat: int, task: int, n: int) -> np.ndarray:
    """(n, n) counts of one task: rows are the truth, columns the answers."""
    rows = of_task(frame, repeat, task)
    counts = np.zeros((n, n), dtype=np.int64)
    np.add.at(counts, (rows["truth"].to_numpy(), rows["predicted"].to_numpy()), 1)
    return counts
