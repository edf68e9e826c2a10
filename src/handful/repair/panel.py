"""A panel of eight methods on frozen features: how scores and ranks move when a benchmark is repaired."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from handful import registry
from handful.audits.answers import answer
from handful.audits.context import Context, affordable, fewer
from handful.metrics.base import TAILS, Estimate, mean_interval
from handful.repair.masking import task_part

PANEL: dict[str, tuple[str, Mapping[str, Any]]] = {
    "class means": ("nearest-centroid", {}),
    "class means, cosine": ("protonet", {"distance": "cosine", "temperature": 0.1}),
    "attention to the support": ("matchingnet", {}),
    "nearest neighbour": ("k-nn", {"k": 1}),
    "five neighbours": ("k-nn", {"k": 5}),
    "ridge regression": ("r2d2", {"penalty": 1.0}),
    "linear classifier": ("linear", {}),
    "cosine classifier": ("cosine", {}),
}
"""Eight ways to answer from the same features, none of them trained: their ranks depend on the tasks alone."""
ROOMS, LADDER = (500, 1000, 2000, 4000, 8000), (20, 50, 100, 200)
DRAWS = 2000


@dataclass(frozen=True, eq=False)
class Scores:
    """Accuracies (tasks, methods), the rule that drew the tasks, and how many images they came from."""

    values: np.ndarray
    rule: dict[str, Any]
    part: str
    room: int


def asked(context: Context, room: int, tasks: int, seconds: float = 0.0) -> Scores:
    """The panel on the tasks of a collection, drawn from at most ``room`` images.

    ``tasks`` is how many there are; 0 for as many as the ``seconds`` allow.
    """
    part = fewer(task_part(context.collection), room, context.seed)
    with context.pinned(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        context.view.read(part.rows)
        rule = context.tasks(part=part)
        if not tasks:
            start = time.monotonic()
            for method, options in PANEL.values():
                answer(on_features(method, options), rule, 2, context.seed)
            spent = max((time.monotonic() - start) / 2, 1e-6)
            tasks = affordable(LADDER, 1 / spent, seconds)
        columns = [answer(on_features(m, o), rule, tasks, context.seed).tasks for m, o in PANEL.values()]
    return Scores(np.stack(columns, 1), rule.parameters, rule.part.id, room)


def on_features(method: str, options: Mapping[str, Any]) -> Any:
    """A method that takes what it is given as features."""
    return registry.make("methods", method, {"net": "pixels", **options})


def tau(before: np.ndarray, after: np.ndarray, seed: int = 0) -> Estimate:
    """Kendall's tau-b of the methods' means before and after, with the interval of a bootstrap over the tasks of each side."""
    rng = np.random.default_rng([seed, 0x7A0])
    value = float(_tau(before.mean(0)[None], after.mean(0)[None])[0])
    if np.array_equal(before, after):  # the same tasks on both sides: nothing was repaired that they are drawn from
        return Estimate(value, value, value, "new tasks from the same classes", len(before))
    drawn = [rng.multinomial(len(x), np.full(len(x), 1 / len(x)), DRAWS) @ x / len(x) for x in (before, after)]
    found = _tau(*drawn)
    low, high = np.nanquantile(found, TAILS) if np.isfinite(found).any() else (np.nan, np.nan)
    return Estimate(value, float(low), float(high), "new tasks from the same classes", len(before))


def _tau(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Kendall's tau-b of the rows of two arrays (n, methods), two scores within rounding being a tie."""
    i, j = np.triu_indices(a.shape[1], 1)
    x, y = (np.sign(np.round(v[:, i] - v[:, j], 12)) for v in (a, b))
    both = np.sqrt(np.square(x).sum(1) * np.square(y).sum(1))
    return np.divide((x * y).sum(1), both, out=np.full(len(x), np.nan), where=both > 0)


def compared(before: Scores, after: Scores, seed: int) -> dict[str, Any]:
    """What a certificate says of the panel."""
    ranks = [stats.rankdata(-s.values.mean(0), method="average") for s in (before, after)]
    methods = {
        name: {
            "before": mean_interval(before.values[:, i], "tasks").as_dict(),
            "after": mean_interval(after.values[:, i], "tasks").as_dict(),
            "rank_before": float(ranks[0][i]),
            "rank_after": float(ranks[1][i]),
        }
        for i, name in enumerate(PANEL)
    }
    sides = {
        name: {"tasks": len(s.values), "room": s.room, "rule": s.rule, "part": s.part}
        for name, s in (("before", before), ("after", after))
    }
    return {"tau": tau(before.values, after.values, seed).as_dict(), "methods": methods, "sides": sides}


def both(before: Context, after: Context, seconds: float) -> dict[str, Any]:
    """The panel on both sides, with the same number of tasks."""
    room = affordable(ROOMS, before.rate, 0.25 * seconds)
    first = asked(before, room, 0, 0.3 * seconds)
    second = asked(after, room, len(first.values))
    return compared(first, second, before.seed)


def again(before: Context, after: Context, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The same panel as a certificate says it was asked."""
    sides = facts["sides"]
    found = [asked(c, int(sides[k]["room"]), int(sides[k]["tasks"])) for c, k in ((before, "before"), (after, "after"))]
    return compared(found[0], found[1], before.seed)
