"""From runs to the rows of tables and the points of curves."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from handful.metrics import Estimate
from handful.runs import Run
from handful.runs.run import marked

Points = list[tuple[float, float, float, float]]


def percent(estimate: Estimate) -> tuple[float, float]:
    """Value and half interval as shown: in percent unless the estimate has another scale."""
    return estimate.scale * estimate.value, estimate.scale * estimate.half


def point(x: float, e: Estimate) -> tuple[float, float, float, float]:
    """A point of a curve with its band, as shown."""
    return x, e.scale * e.value, e.scale * e.low, e.scale * e.high


def run_table(runs: Mapping[str, Run], columns: list[str]) -> pl.DataFrame:
    """One row per run, one column per metric, each cell 'mean ± half'."""
    rows = []
    for label, run in runs.items():
        cells = {
            c: str(run.estimate(c))
            for c in columns
            if c in run.frame.columns or any(c in m.columns for m in run.metrics)
        }
        rows.append({"method": marked(label, run.transductive), **cells})
    return pl.DataFrame(rows)


def binned(run: Run, key: str, column: str, bins: int = 6) -> Points:
    """Points (x, value, low, high) as shown, values of ``key`` gathered into at most ``bins`` groups of neighbours."""
    values = sorted(run.frame[key].unique().to_list())
    size = -(-len(values) // bins)
    points = []
    for start in range(0, len(values), size):
        group = values[start : start + size]
        part = run.frame.filter(pl.col(key).is_in(group))
        estimate = run.estimate(column, part)
        if estimate.n > 1:
            points.append(point(float(part[key].mean()), estimate))  # type: ignore[arg-type]
    return points
