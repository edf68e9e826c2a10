"""The last section of a report's page: what the numbers mean, and every run behind them."""

from __future__ import annotations

import polars as pl

from handful.report.comparison import Comparison
from handful.report.page import Section, Table
from handful.runs import Run
from handful.runs.run import DAGGER, TRANSDUCTIVE, marked

WORDS = [
    "An interval over tasks says how far the mean would move with other tasks drawn from the same classes; it says nothing of "
    "new classes, nor of training again. One over repeats covers other drawings of the tasks, one over classes other "
    "classes of the same kind, one over training seeds training again.",
    "Percentages are shares times 100; ratios are shown as they are.",
    f"{DAGGER}: the method {TRANSDUCTIVE}; it has more to go by than one that answers each query alone.",
    "Tests are paired on the same tasks and see the same variation as intervals over tasks. With several training seeds a "
    "task's score is the mean over them.",
]


def reading(comparisons: list[Comparison]) -> Section:
    """How to read the page, and what was run."""
    rows = [
        {
            "method": label,
            "run": marked(run.method, run.transductive),
            "collection": run.identity["collection"],
            "seed": str(run.identity["seed"]),
            "tasks": str(len(run.frame)),
            "weights": run.identity.get("weights", ""),
            "seconds": seconds_of(run),
            "version": run.identity.get("version", ""),
        }
        for comparison in comparisons
        for label, runs in comparison.runs.items()
        for run in runs
    ]
    return Section("What was run, and how to read it", WORDS, [Table(pl.DataFrame(rows), "Every run of this page")])


def seconds_of(run: Run) -> str:
    spent = run.facts.get("seconds")
    total = spent.get("total") if isinstance(spent, dict) else spent
    return f"{total:.1f}" if isinstance(total, (int, float)) else ""
