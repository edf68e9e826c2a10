"""From runs to the rows of tables and the points of curves."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from handful.metrics import Estimate
from handful.runs import Run


def percent(estimate: Estimate) -> tuple[float, float]:
    """Value and half interval in percent."""
    return 100 * estimate.value, 100 * estimate.half


def run_table(runs: Mapping[str, Run], columns: list[str]) -> pl.DataFrame:
    """One row a run, one column a metric, each cell 'mean ± half'."""
    rows = []
    for label, run in runs.items():
        cells = {
            c: str(run.estimate(c))
            for c in columns
            if c in run.frame.columns or any(c in m.columns for m in run.metrics)
        }
        rows.append({"method": label, **cells})
    return pl.DataFrame(rows)


def binned(run: Run, key: str, column: str, bins: int = 6) -> list[tuple[float, float, float, float]]:
    """Points (x, value, low, high) in percent, values of ``key`` gathered into at most ``bins`` groups of neighbours."""
    values = sorted(run.frame[key].unique().to_list())
    size = -(-len(values) // bins)
    points = []
    for start in range(0, len(values), size):
        group = values[start : start + size]
        part = run.frame.filter(pl.col(key).is_in(group))
        estimate = run.estimate(column, part)
        if estimate.n > 1:
            points.append((float(part[key].mean()), 100 * estimate.value, 100 * estimate.low, 100 * estimate.high))  # type: ignore[arg-type]
    return points
