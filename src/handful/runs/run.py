"""A run: method x benchmark x seed, one row per task."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from handful import registry
from handful.errors import BadInput, Mismatch, nearest
from handful.files import fresh_folder
from handful.frames import write_frame
from handful.metrics import Estimate, Metric, PairedTest, mean_interval, paired
from handful.metrics.base import SHOWN
from handful.metrics.context import PREFIX, by_context
from handful.runs.store import COUNTS, read_facts, read_part

ANSWERS = (*COUNTS, "query")
DAGGER = "†"
TRANSDUCTIVE = "looks at all queries of a task together (transductive)"


def marked(label: str, transductive: bool) -> str:
    """A method's label, with the mark of those that see all queries of a task together."""
    return label + DAGGER if transductive and not label.endswith(DAGGER) else label


@dataclass
class Run:
    """Results of an evaluation.

    Attributes
    ----------
    frame
        One row per task: repeat, task, ways, shots, dataset, every metric.
    identity
        What was run: collection id, part, rule, seed, method, code version.
    """

    frame: pl.DataFrame
    identity: dict[str, Any]
    facts: dict[str, Any] = field(default_factory=dict)
    answers: pl.DataFrame | None = None
    path: Path | None = None

    @property
    def metrics(self) -> list[Metric]:
        return [registry.make("metrics", name) for name in self.identity["metrics"]]

    @property
    def main(self) -> str:
        return self.metrics[0].main

    @property
    def transductive(self) -> bool:
        """Whether an answer may depend on the other queries; runs of before this was recorded ask the method."""
        if "transductive" not in self.facts and self.method in registry.table("methods"):
            return bool(registry.get("methods", self.method).transductive)
        return bool(self.facts.get("transductive", False))

    @property
    def method(self) -> str:
        return self.identity["method"]

    def estimate(self, column: str | None = None, frame: pl.DataFrame | None = None) -> Estimate:
        """Value and 95% interval of one column, over tasks (or as its metric says)."""
        column = column or self.main
        frame = self.frame if frame is None else frame
        for metric in self.metrics:
            if column in metric.columns:
                return dataclasses.replace(metric.reduce(frame, column), scale=self.scale(column))
        if column not in frame.columns:
            raise BadInput(f"the run has no column {column!r}; {nearest(column, frame.columns)}")
        return mean_interval(frame[column].to_numpy())

    def scale(self, column: str) -> float:
        """What a column is multiplied by to be shown: 100 unless its metric says otherwise."""
        return next((m.scales[column] for m in self.metrics if column in m.scales), 100.0)

    def over_seeds(self, column: str | None = None) -> Estimate:
        """Mean of the repeats' values with a t interval over repeats (drawing seeds)."""
        column = column or self.main
        values = [self.estimate(column, group).value for _, group in self.frame.group_by("repeat", maintain_order=True)]
        import numpy as np

        return dataclasses.replace(mean_interval(np.asarray(values), over="seeds"), scale=self.scale(column))

    def by(self, *keys: str, column: str | None = None) -> pl.DataFrame:
        """A table of the estimate by way, shot, data set, ..."""
        rows = []
        for values, group in self.frame.group_by(*keys, maintain_order=True):
            estimate = self.estimate(column, group)
            rows.append({**dict(zip(keys, values, strict=True)), "tasks": len(group), **estimate.as_dict()})
        return pl.DataFrame(rows).sort(list(keys))

    def summary(self) -> pl.DataFrame:
        rows = []
        for metric in self.metrics:
            for column in metric.columns:
                if column in self.frame.columns:
                    rows.append({"metric": column, "tasks": len(self.frame), **self.estimate(column).as_dict()})
        return pl.DataFrame(rows)

    def contexts(self) -> pl.DataFrame | None:
        """Accuracy in each context of the queries, worst first; nothing for a collection without contexts."""
        return by_context(self.frame) if any(c.startswith(PREFIX) for c in self.frame.columns) else None

    def compare(self, other: Run, column: str | None = None) -> PairedTest:
        """Paired difference to another run on the same tasks."""
        if self.identity["tasks_id"] != other.identity["tasks_id"]:
            raise Mismatch(
                f"the runs were asked different tasks ({self.identity['tasks_id']} and {other.identity['tasks_id']}); "
                "evaluate both with the same collection, rule and seed"
            )
        column = column or self.main
        for run in (self, other):
            run.estimate(column)  # which says so where there is no such column
        a = self.frame.sort("repeat", "task")[column].to_numpy()
        b = other.frame.sort("repeat", "task")[column].to_numpy()
        found = paired(a, b)
        return dataclasses.replace(found, difference=dataclasses.replace(found.difference, scale=self.scale(column)))

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Read a finished run's folder."""
        path = Path(path)
        if not (path / "run.json").is_file():
            raise BadInput(
                f"{path} is not a run's folder: it has no run.json; make one with: handful eval ... --out {path}"
            )
        facts = read_facts(path)
        identity = facts.pop("identity")
        if not (path / "tasks.parquet").is_file():
            raise BadInput(f"the run in {path} is not finished; start the same command again to go on")
        answers = read_part(path / "answers.parquet", ANSWERS) if (path / "answers.parquet").is_file() else None
        run = cls(read_part(path / "tasks.parquet", COUNTS), identity, facts, answers, path)
        columns = [run.main, *(c for m in run.metrics for c in m.columns if c in run.frame.columns)]
        if odd := [c for c in columns if c not in run.frame.columns or not run.frame[c].dtype.is_numeric()]:
            raise BadInput(f"{path / 'tasks.parquet'} has no column of numbers {odd[0]!r}; run it again")
        return run

    def save(self, path: str | Path) -> Path:
        """Write the run as a folder; one that holds a run already is replaced."""
        path = Path(path)
        with fresh_folder(path, force=(path / "run.json").is_file()) as folder:
            write_frame(self.frame, folder / "tasks.parquet")
            if self.answers is not None:
                write_frame(self.answers, folder / "answers.parquet")
            facts = {"identity": self.identity, "status": "finished", **self.facts}
            facts.setdefault("summary", self.summary().to_dicts())
            (folder / "run.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        return path

    def __str__(self) -> str:
        head = f"{marked(self.method, self.transductive)} on {self.identity['part']}, {self.identity['rule']['rule']}, seed {self.identity['seed']}"
        lines = [head]
        for row in self.summary().iter_rows(named=True):
            scale = self.scale(row["metric"])
            half = scale * (row["high"] - row["low"]) / 2
            spread = (
                f"± {half:.2f}  ({SHOWN}, over {row['over']}, n={row['n']})"
                if row["n"] > 1
                else "(one task, no interval)"
            )
            lines.append(f"  {row['metric']:<13} {scale * row['value']:6.2f} {spread}")
        if self.frame["repeat"].n_unique() > 1:
            seeds = self.over_seeds()
            lines.append(
                f"  {self.main:<13} {seeds.scale * seeds.value:6.2f} ± {seeds.scale * seeds.half:.2f}  ({SHOWN}, over {seeds.n} drawing seeds)"
            )
        for key in ("dataset", "ways", "shots"):
            if key in self.frame.columns and 1 < self.frame[key].n_unique() <= 20:
                parts = [
                    f"{r[key]}: {self.scale(self.main) * r['value']:.1f}" for r in self.by(key).iter_rows(named=True)
                ]
                lines.append(f"  by {key}: " + ", ".join(parts))
        if (found := self.contexts()) is not None:
            worst = [f"{r['context']}: {100 * r['value']:.1f}" for r in found.head(20).iter_rows(named=True)]
            more = f" and {len(found) - 20} more" if len(found) > 20 else ""
            lines.append("  by context, worst first: " + ", ".join(worst) + more)
        if self.transductive:
            lines.append(f"  {DAGGER} {TRANSDUCTIVE}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<b>{marked(self.method, self.transductive)}</b> on <code>{self.identity['part']}</code>{self.summary()._repr_html_()}"

    def as_dict(self) -> dict[str, Any]:
        """One JSON object: identity, summary, timings."""
        found = self.contexts()
        contexts = {} if found is None else {"contexts": found.to_dicts()}
        return {"identity": self.identity, "summary": self.summary().to_dicts(), **contexts, **self.facts}
