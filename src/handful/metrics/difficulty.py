"""Hard how? What separates a weak learner from a strong one, and what even the strong one lacks."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from handful.errors import BadInput


def difficulty(worst: Mapping[str, float], best: Mapping[str, float]) -> pl.DataFrame:
    """Each data set's difficulty: worst baseline + modelling + intrinsic = 1 (metadl, section 4.3 and Figure 3).

    Modelling difficulty is what separates the best baseline from the worst, intrinsic difficulty what the best one lacks.
    """
    if set(worst) != set(best):
        odd = sorted(set(worst) ^ set(best))[0]
        raise BadInput(f"data set {odd!r} has been scored for one baseline only; run both on the same data sets")
    rows = [
        {"dataset": name, "worst": worst[name], "modelling": best[name] - worst[name], "intrinsic": 1 - best[name]}
        for name in sorted(worst)
    ]
    return pl.DataFrame(
        rows, schema={"dataset": pl.String, "worst": pl.Float64, "modelling": pl.Float64, "intrinsic": pl.Float64}
    )
