"""A recipe's filled table: reported beside measured, and which run fills which cell."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from handful import registry
from handful.data.collection import Collection
from handful.errors import HandfulError
from handful.files import write_atomically
from handful.metrics import mean_interval
from handful.nets.building import seen
from handful.options import parse_spec
from handful.runs.run import DAGGER, TRANSDUCTIVE, Run

if TYPE_CHECKING:
    from handful.runs.recipe import Recipe


@dataclass
class RecipeResult:
    """The filled table: one row per method and test, reported beside measured."""

    recipe: Recipe
    collection: Collection
    runs: dict[tuple[str, str, int], Run]

    @property
    def frame(self) -> pl.DataFrame:
        rows = []
        for method in self.recipe.method:
            for test in self.recipe.test:
                runs = [
                    self.runs[key] for s in self.recipe.seeds if (key := (method.title, test.label, s)) in self.runs
                ]
                if not runs:
                    continue
                estimates = [r.estimate(test.metric) for r in runs]
                estimate = (
                    estimates[0]
                    if len(runs) == 1
                    else mean_interval(np.asarray([e.value for e in estimates]), "training seeds")
                )
                reported = method.reported.get(test.label)
                value, half = (
                    (reported if isinstance(reported, tuple) else (reported, None))
                    if reported is not None
                    else (None, None)
                )
                metric = test.metric or runs[0].main
                scale = runs[0].scale(metric)
                rows.append(
                    {
                        "method": method.title,
                        "transductive": runs[0].transductive,
                        "learning": learning_of(runs[0].method),
                        "net": net_of(runs[0]),
                        "test": test.label,
                        "metric": metric,
                        "measured": scale * estimate.value,
                        "half": scale * estimate.half,
                        "over": estimate.over,
                        "n": estimate.n,
                        "reported": value,
                        "reported_half": half,
                    }
                )
        return pl.DataFrame(rows, infer_schema_length=None)

    def keep(self, out: Path) -> None:
        """Write ``recipe.json`` beside the runs: which of them fills which cell, and what the paper reports there."""
        reported = {m.title: m.reported for m in self.recipe.method}
        cells = []
        for (method, test, seed), run in self.runs.items():
            if run.path is not None:
                place = run.path.relative_to(out).as_posix()
                value = reported[method].get(test)
                pair = list(value) if isinstance(value, tuple) else [value, None]
                metric = next(t.metric for t in self.recipe.test if t.label == test)
                cells.append(
                    {"method": method, "test": test, "seed": seed, "metric": metric, "run": place, "reported": pair}
                )
        facts = {k: getattr(self.recipe, k) for k in ("title", "paper", "table", "note", "reported_on")}
        text = json.dumps({**facts, "collection": self.collection.id, "cells": cells}, indent=1, ensure_ascii=False)
        write_atomically(out / "recipe.json", lambda t: t.write_text(text + "\n", encoding="utf-8"))


LEARNING = (
    "GL: learns from labels over all training classes; LL: from the labels of tasks; TT: tunes on each task at test"
)


def footnotes(labels: Iterable[str], learning: Iterable[str]) -> list[str]:
    """What the marks in a table mean, those that it has."""
    found = [f"{DAGGER} {TRANSDUCTIVE}"] if any(DAGGER in label for label in labels) else []
    return [*found, *([LEARNING] if any(learning) else [])]


def learning_of(method: str) -> str:
    """GL, LL, TT: how a method learns, as its stages and head say."""
    return registry.make("methods", method).learning if method in registry.names("methods") else ""


def net_of(run: Run) -> str:
    """The backbone of a run's method, and what its weights had been trained on before; nothing for methods without one."""
    net = asked_net(run)
    seen = seen_by(net)
    return f"{net} (pretrained on {seen})" if seen else net


def asked_net(run: Run) -> str:
    return str(run.identity.get("options", {}).get("net") or "")


def seen_by(net: str) -> str:
    """What a backbone's weights were trained on before it came here, in words; empty where they start from nothing."""
    try:
        return seen(net) if parse_spec(net)[0] in registry.names("nets") else ""
    except HandfulError:  # a run or a submission may come from anyone, or name what is not installed here
        return ""
