"""Figures of what is beyond accuracy: reliability of probabilities, and curves over noise, imbalance and difficulty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from handful.metrics.base import SHOWN
from handful.metrics.calibration import reliability
from handful.report import figures
from handful.report.comparison import Comparison
from handful.report.page import Figure, Section
from handful.report.summary import Points, point

STRAINS = {
    "noise": "share of wrong labels",
    "ratio": "imbalance (most over fewest examples)",
    "difficulty": "difficulty",
}
"""Options of rules that make tasks harder by degrees, in words."""
MOST = 8


def reliability_part(comparison: Comparison) -> Section:
    """How often answers are right, by how sure they are; nothing for runs that did not measure calibration."""
    part = Section("Can the probabilities be believed?")
    tables = {
        label: sum(reliability(run.frame).sum(0) for run in runs)
        for label, runs in comparison.runs.items()
        if all("reliability" in run.frame.columns for run in runs)
    }
    if tables:
        part.figures.append(reliability_figure(dict(list(tables.items())[:MOST])))
        part.sentences.append(
            "On the dotted line a method that says 80% is right in 80 of 100 answers; below it, it is too sure."
        )
    return part


def reliability_figure(tables: Mapping[str, np.ndarray]) -> Figure:
    """The reliability diagram (DeGroot and Fienberg, 1983) of bins (3, BINS), one curve for each."""
    words = "Share of right answers over the probability given, one curve for each method"
    return Figure(figures.reliability(tables), words, f"{words}; larger dots stand for more queries.")


def strain_figures(comparisons: list[Comparison]) -> list[Figure]:
    """Curves through sets of tasks whose rules differ in one degree of difficulty alone."""
    out = []
    for key, words in STRAINS.items():
        groups: dict[tuple[Any, ...], list[tuple[float, Comparison]]] = {}
        for comparison in comparisons:
            rule = dict(plain(comparison.identity["rule"]))
            if (x := next((v for k, v in rule.items() if k.split(".")[-1] == key), None)) is not None:
                rest = tuple(sorted((k, str(v)) for k, v in rule.items() if k.split(".")[-1] != key))
                groups.setdefault((comparison.identity["part"], comparison.column, rest), []).append(
                    (float(x), comparison)
                )
        for (part, column, _), found in groups.items():
            lines: dict[str, Points] = {}
            for x, comparison in sorted(found, key=lambda f: f[0]):
                for label in comparison.labels:
                    lines.setdefault(label, []).append(point(x, comparison.estimate(label)))
            lines = {label: points for label, points in lines.items() if len(points) > 1}
            if lines:
                unit = f"{column} (%)" if found[0][1].scale == 100 else column
                said = f"{column} over the {words} ({part.partition('@')[0]})"
                kept = dict(list(lines.items())[:MOST])
                out.append(
                    Figure(
                        figures.curves(kept, words, unit),
                        said,
                        f"{said[:1].upper()}{said[1:]}; bands: {SHOWN} intervals.",
                    )
                )
    return out


def plain(rule: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """A rule's options and those of the rule that it wraps, one after the other, without the part."""
    out: list[tuple[str, Any]] = []
    for key, value in rule.items():
        if isinstance(value, Mapping):
            out += plain(value, f"{before}{key}.")
        elif key != "part":
            out.append((f"{before}{key}", value))
    return out
