"""Runs that were asked the same tasks: estimates, ties with the best, every pair tested, ranks."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from handful.errors import BadInput, Mismatch
from handful.metrics import Estimate, mean_interval
from handful.metrics.many import Pair, Ranking, all_pairs, cliques, critical_difference, friedman, holm, p_values
from handful.report.entries import RunEntry
from handful.runs import Run
from handful.runs.filled import learning_of

ENOUGH_SETS = 6
"""With fewer data sets than this no signed-rank test over them can reach 5%."""


@dataclass(frozen=True)
class Ranks:
    """Average ranks of the methods with Friedman's test, and the groups that are not told apart."""

    labels: list[str]
    over: str
    ranking: Ranking
    groups: list[tuple[int, ...]]
    how: str
    difference: float | None = None

    def as_dict(self) -> dict[str, Any]:
        r = self.ranking
        return {
            "over": self.over,
            "blocks": r.n,
            "ranks": {label: float(x) for label, x in zip(self.labels, r.ranks, strict=True)},
            "friedman": {"chi2": r.chi2, "p": r.p, "f": r.f, "f_p": r.f_p},
            "groups": [[self.labels[i] for i in group] for group in self.groups],
            "how": self.how,
            "critical_difference": self.difference,
        }


def rank(scores: np.ndarray, labels: list[str], over: str, how: str, alpha: float, lower: bool = False) -> Ranks | None:
    """Ranks over the rows of ``scores``; None if there are fewer than three methods or two whole rows."""
    whole = scores[~np.isnan(scores).any(1)]
    if scores.shape[1] < 3 or len(whole) < 2:
        return None
    found = friedman(whole, lower)
    k = len(labels)
    if how == "nemenyi":
        difference = critical_difference(k, len(whole), alpha)
        tied = np.abs(found.ranks[:, None] - found.ranks[None]) < difference
    else:
        difference = None
        first, second = np.triu_indices(k, 1)
        p = holm(p_values(whole[:, first] - whole[:, second], "wilcoxon"))
        tied = np.ones((k, k), dtype=bool)
        tied[first, second] = tied[second, first] = ~(p < alpha)
    return Ranks(labels, over, found, cliques(found.ranks, tied), how, difference)


class Comparison:
    """Methods on one set of tasks (equal ``tasks_id``).

    Parameters
    ----------
    entries
        Runs; those of one label are one method trained with several seeds.
    column
        What is compared; by default what the recipe's test names, else the metric's main column.
    """

    def __init__(
        self, entries: list[RunEntry], column: str | None = None, test: str = "sign-flip", alpha: float = 0.05
    ):
        self.entries, self.test, self.alpha = entries, test, alpha
        self.runs: dict[str, list[Run]] = {}
        for entry in entries:
            known = self.runs.setdefault(entry.label, [])
            if not any(run is entry.run or (run.path and run.path == entry.run.path) for run in known):
                known.append(entry.run)
        ids = {run.identity["tasks_id"] for run in self.all_runs}
        if len(ids) > 1:
            raise Mismatch(
                f"the runs were asked different tasks ({' and '.join(sorted(ids))}); evaluate all with the same collection, "
                "rule, seed and number of tasks"
            )
        named = next((e.metric for e in entries if e.metric), None)
        self.column = column or named or self.first.main
        for run in self.all_runs:
            if self.column not in run.frame.columns:
                run.estimate(self.column)
                raise BadInput(
                    f"{self.column} has no value for single tasks in the run of {run.method}; choose another metric"
                )

    @property
    def all_runs(self) -> list[Run]:
        return [run for runs in self.runs.values() for run in runs]

    @property
    def first(self) -> Run:
        return self.all_runs[0]

    @property
    def identity(self) -> dict[str, Any]:
        return self.first.identity

    @property
    def labels(self) -> list[str]:
        return list(self.runs)

    @property
    def tests(self) -> list[str]:
        """Labels of the recipe's columns that these tasks fill."""
        return list(dict.fromkeys(e.test for e in self.entries if e.test))

    @property
    def scale(self) -> float:
        return self.first.scale(self.column)

    @property
    def lower(self) -> bool:
        """Whether less is better in the compared column."""
        return any(self.column in m.lower for m in self.first.metrics)

    @cached_property
    def title(self) -> str:
        return " / ".join(self.tests) or describe(self.identity)

    @cached_property
    def tasks(self) -> pl.DataFrame:
        """One row per task, in the order of `scores`: what the tasks are, without any method's scores."""
        frame = self.first.frame.sort("repeat", "task")
        known = {c for m in self.first.metrics for c in m.columns}
        return frame.select([c for c in frame.columns if c not in known and "/" not in c and not c.startswith("hit")])

    @cached_property
    def scores(self) -> np.ndarray:
        """(tasks, methods): the compared column of each task, averaged over training seeds."""
        return self.matrix(self.column)

    def matrix(self, column: str) -> np.ndarray:
        keys = self.tasks.select("repeat", "task")
        out = []
        for label, runs in self.runs.items():
            frames = [run.frame.sort("repeat", "task") for run in runs]
            if not all(frame.select("repeat", "task").equals(keys) for frame in frames):
                raise Mismatch(
                    f"the run of {label} lacks some of the tasks; run it again with the same --out to finish it"
                )
            values = [
                f[column].cast(pl.Float64).to_numpy() if column in f.columns else np.full(len(f), np.nan)
                for f in frames
            ]
            out.append(np.mean(values, 0))
        return np.stack(out, 1)

    def estimate(self, label: str, column: str | None = None) -> Estimate:
        """Over tasks (or as the metric says) for one training seed, over training seeds for several."""
        column = column or self.column
        found = [run.estimate(column) for run in self.runs[label]]
        if len(found) == 1:
            return found[0]
        over = mean_interval(np.asarray([e.value for e in found]), "training seeds")
        return dataclasses.replace(over, scale=found[0].scale)

    @cached_property
    def best(self) -> int:
        values = np.asarray([self.estimate(label).value for label in self.labels])
        values = np.where(np.isnan(values), np.inf if self.lower else -np.inf, values)
        return int(values.argmin() if self.lower else values.argmax())

    @cached_property
    def pairs(self) -> list[Pair]:
        """Every pair, Holm over all of them."""
        return all_pairs(self.scores, self.test)

    def against_best(self, label: str) -> Pair | None:
        """The pair of a method and the best one; None for the best itself."""
        at = self.labels.index(label)
        return next((p for p in self.pairs if {p.first, p.second} == {at, self.best}), None)

    def verdict(self, label: str) -> str:
        """best, tie (not significantly different from the best) or worse."""
        pair = self.against_best(label)
        if pair is None:
            return "best"
        return "worse" if pair.adjusted < self.alpha else "tie"

    @property
    def can_tell(self) -> bool:
        """Whether so few tasks could show any difference at all under the test and its correction."""
        n = len(self.scores)
        return not self.pairs or self.test == "t" or 2.0 ** (1 - min(n, 1000)) * len(self.pairs) < self.alpha

    @cached_property
    def by_dataset(self) -> tuple[list[str], np.ndarray]:
        """Data sets, and (data sets, methods) mean scores of the compared column."""
        if "dataset" not in self.tasks.columns:
            return [], np.zeros((0, len(self.labels)))
        column = self.tasks["dataset"].cast(pl.String).fill_null("(none)").to_numpy()
        names = sorted(set(column.tolist()))
        with np.errstate(invalid="ignore"):
            return names, np.stack([np.nanmean(self.scores[column == name], 0) for name in names])

    def ranks(self, over: str = "auto", how: str = "wilcoxon") -> Ranks | None:
        """Ranks over tasks, or over data sets where there are enough of them."""
        names, means = self.by_dataset
        if over == "datasets" or (over == "auto" and len(names) >= ENOUGH_SETS):
            return rank(means, self.labels, "data sets", how, self.alpha, self.lower) if len(names) > 1 else None
        return rank(self.scores, self.labels, "tasks", how, self.alpha, self.lower)

    def columns(self) -> list[str]:
        """The metrics' columns that the runs have, the compared one first."""
        known = [c for m in self.first.metrics for c in m.columns if all(c in r.frame.columns for r in self.all_runs)]
        return [self.column, *[c for c in known if c != self.column]]

    def learning(self, label: str) -> str:
        return learning_of(self.runs[label][0].method)


def describe(identity: dict[str, Any]) -> str:
    """A run's tasks in words: ways, shots, rule, collection and split."""
    rule = {"rule": "", **identity.get("rule", {})}
    of = rule.get("of")
    inner: dict[str, Any] = of if isinstance(of, dict) else rule
    words = []
    for key, word in (("ways", "way"), ("primitives", "primitives"), ("shots", "shot")):
        value = inner.get(key)
        if value is not None:
            text = "-".join(map(str, value)) if isinstance(value, list) else str(value)
            words.append(f"{text}-{word}" if key != "primitives" else f"{text} {word}")
    collection = identity["collection"]
    split = identity["part"].removeprefix(f"{collection}:").rpartition("#")[0].rpartition("/")[2]
    name = collection.partition("@")[0]
    return f"{' '.join(words)} {rule['rule']} tasks, {name} ({split or 'all'})".strip()
