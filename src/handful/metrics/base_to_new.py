"""Scores of tasks whose learners saw some of the classes and know the others by name."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import polars as pl

from handful.metrics.base import Estimate, Metric, mean_interval
from handful.metrics.pairs import harmonic, jackknife
from handful.tasks.episode import Episode


class BaseToNewAccuracy(Metric):
    """``base``: accuracy on queries of base classes among these; ``new``: on new ones among the new; ``hm``: the harmonic mean of
    the two means over all tasks (Zhou et al., CVPR 2022), its interval by the delete-one jackknife. ``base_all`` and ``new_all``
    answer among all classes together."""

    name: ClassVar[str] = "base-to-new"
    columns: ClassVar[tuple[str, ...]] = ("hm", "base", "new", "base_all", "new_all")
    main: ClassVar[str] = "hm"

    def row(self, episode: Episode, scores: np.ndarray, support_scores: np.ndarray | None = None) -> dict[str, float]:
        assert episode.seen is not None
        truth, seen = episode.query_labels, episode.seen
        known = seen[truth]
        apart = np.where(seen[None] == known[:, None], scores, -np.inf)
        right, among = apart.argmax(1) == truth, scores.argmax(1) == truth
        row = {"base": right[known], "new": right[~known], "base_all": among[known], "new_all": among[~known]}
        means = {name: float(values.mean()) if len(values) else float("nan") for name, values in row.items()}
        return {"hm": harmonic(means["base"], means["new"]), **means}

    def reduce(self, frame: pl.DataFrame, column: str) -> Estimate:
        if column != "hm":
            return mean_interval(frame[column].to_numpy())
        return jackknife("hm", frame.select("base", "new").cast(pl.Float64).to_numpy())
