"""Scores of a challenge run, from its table of one row per task: estimates by data set, ways and shots; ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl

from handful.errors import BadInput
from handful.metrics.accuracy import Accuracy
from handful.metrics.base import Estimate

SCORE = "normalised"
COLUMNS = ("repeat", "task", "ways", "shots", "dataset", "queries", "accuracy", "balanced", SCORE)
"""What participants see of each task: whatever else a rule or a metric knows stays with the organisers."""
_METRIC = Accuracy()


def numbered(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows as participants see them: numbers for the data sets, in the order of their names."""
    return frame.select(COLUMNS).with_columns(
        pl.col("dataset").replace_strict(numbers(frame["dataset"].unique().to_list()))
    )


def numbers(names: Iterable[str]) -> dict[str, str]:
    """What each hidden data set is called until the challenge ends; sorts as the names do."""
    order = sorted(set(names))
    return {name: f"dataset_{i:0{len(str(len(order)))}d}" for i, name in enumerate(order, 1)}


def estimate(frame: pl.DataFrame) -> Estimate:
    """Mean normalised accuracy with its 95% interval over tasks."""
    return _METRIC.reduce(frame, SCORE)


def by(frame: pl.DataFrame, key: str) -> dict[str, Estimate]:
    """Estimates by data set, ways or shots, in order."""
    parts = sorted(frame.group_by(key), key=lambda part: part[0])
    return {str(values[0]): estimate(part) for values, part in parts}


def repeats(frame: pl.DataFrame) -> list[Estimate]:
    """The estimate of each seed."""
    return list(by(frame, "repeat").values())


def final_score(frame: pl.DataFrame) -> Estimate:
    """The seed with the lowest mean counts."""
    return min(repeats(frame), key=lambda estimate: estimate.value)


def counting(frame: pl.DataFrame) -> pl.DataFrame:
    """The rows of the seed that counts, which is the one with the lowest mean."""
    parts = sorted(frame.group_by("repeat"), key=lambda part: part[0])
    return min(parts, key=lambda part: estimate(part[1]).value)[1]


def summary(frame: pl.DataFrame, seconds: float | None = None) -> dict[str, Any]:
    """Everything that scores.json holds; parts are of the seed that counts, ``overall`` is over all seeds."""
    worst = _plain(final_score(frame))
    out: dict[str, Any] = {"metric": "normalised accuracy", "score": worst["value"]}
    out["interval"] = [worst["low"], worst["high"]]
    out["seeds"] = [_plain(each) for each in repeats(frame)]
    out["overall"] = _plain(estimate(frame))
    for key in ("dataset", "ways", "shots"):
        out[f"by_{key}"] = {name: _plain(each) for name, each in by(counting(frame), key).items()}
    if seconds is not None:
        out["seconds"] = seconds
    return out


def _plain(estimate: Estimate) -> dict[str, Any]:
    """An estimate for JSON, which has no NaN: one task alone has no interval."""
    return {key: None if value != value else value for key, value in estimate.as_dict().items()}


def scores_text(frame: pl.DataFrame, seconds: float) -> str:
    """The lines of the starting kit's scores.txt; data sets go by number, in the order of their names."""
    lines = [f"overall_score: {final_score(frame).value}"]
    frame = counting(frame)
    lines += [f"dataset_{i}: {each.value}" for i, each in enumerate(by(frame, "dataset").values(), 1)]
    numbers = sorted(by(frame, "ways").items(), key=lambda item: int(item[0]))
    lines += [f"{ways}_ways_normalized_accuracy: {each.value}" for ways, each in numbers]
    numbers = sorted(by(frame, "shots").items(), key=lambda item: int(item[0]))
    lines += [f"{shots}_shot_normalized_accuracy: {each.value}" for shots, each in numbers]
    return "\n".join([*lines, f"duration: {seconds}"]) + "\n"


def average_ranks(scores: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Ranks within each data set, averaged over data sets, as NeurIPS 2021 ranked; equal scores share their mean rank.

    ``scores`` is entrant -> data set -> score; entrants must have been scored on the same data sets.
    """
    from scipy.stats import rankdata

    entrants = list(scores)
    if not entrants:
        return {}
    datasets = sorted(scores[entrants[0]])
    for entrant in entrants:
        if sorted(scores[entrant]) != datasets:
            raise BadInput(f"{entrant} was not scored on the same data sets as {entrants[0]}; ranks need the same ones")
    table = np.array([[scores[entrant][name] for name in datasets] for entrant in entrants])
    ranks = np.stack([rankdata(-table[:, i], method="average") for i in range(len(datasets))], 1)
    return {entrant: float(ranks[i].mean()) for i, entrant in enumerate(entrants)}
