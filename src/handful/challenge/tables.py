"""The paper's Tables 5-10 for the challenge at hand: entries side by side, by ways, shots and data set, and difficulty."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from handful.challenge import scores
from handful.errors import BadInput
from handful.files import write_atomically
from handful.frames import write_frame
from handful.metrics.base import SHOWN
from handful.metrics.difficulty import difficulty

if TYPE_CHECKING:
    from handful.challenge.rules import Line


def overall(frames: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Table 5: each entry's mean over the tasks of all its seeds, with the 95% half interval, best first."""
    rows = []
    for name, frame in frames.items():
        each = scores.estimate(frame)
        rows.append({"entry": name, "tasks": each.n, "score": each.value, "half": each.half})
    return pl.DataFrame(rows).sort("score", descending=True)


def side_by_side(frames: Mapping[str, pl.DataFrame], key: str) -> pl.DataFrame:
    """Tables 6-9: a row for each number of ways (or shots, or data set), two columns an entry."""
    keys = sorted({value for frame in frames.values() for value in frame[key].unique().to_list()})
    columns: dict[str, list[object]] = {key: list(keys)}
    for name, frame in frames.items():
        found = scores.by(frame, key)
        each = [found.get(str(value)) for value in keys]
        columns[name] = [None if e is None else e.value for e in each]
        columns[f"{name} ±"] = [None if e is None or e.n < 2 else e.half for e in each]
    return pl.DataFrame(columns)


def difficulties(frames: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Table 10 and Figure 3: the entry with the lowest mean is the worst baseline, the one with the highest the best."""
    if len(frames) < 2:
        raise BadInput("difficulty compares the worst with the best entry; there must be at least two")
    order = overall(frames)["entry"].to_list()
    best, worst = (
        {name: each.value for name, each in scores.by(frames[entry], "dataset").items()}
        for entry in (order[0], order[-1])
    )
    return difficulty(worst, best)


def difficulty_figure(table: pl.DataFrame) -> str:
    """Bars that add up to one: the worst entry, what separates it from the best, and what the best one lacks."""
    from handful.audits.drawing import stacked

    parts = {"worst": "worst entry", "modelling": "modelling difficulty", "intrinsic": "intrinsic difficulty"}
    rows = {str(row["dataset"]): [float(row[part]) for part in parts] for row in table.to_dicts()}
    return stacked(rows, list(parts.values()), "% of the way from guessing to perfect")


def write_tables(frames: Mapping[str, pl.DataFrame], folder: Path) -> list[Path]:
    """All tables as CSV and the difficulty figure as SVG."""
    if not frames:
        raise BadInput("there are no scored entries to make tables of")
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"overall": overall(frames)}
    tables |= {f"by-{key}": side_by_side(frames, key) for key in ("ways", "shots", "dataset")}
    written = []
    if len(frames) > 1:
        tables["difficulty"] = difficulties(frames)
        figure = difficulty_figure(tables["difficulty"])
        write_atomically(folder / "difficulty.svg", lambda t: t.write_text(figure, encoding="utf-8"))
        written.append(folder / "difficulty.svg")
    for name, table in tables.items():
        _write_csv(table, folder / f"{name}.csv")
        written.append(folder / f"{name}.csv")
    return sorted(written)


def _write_csv(table: pl.DataFrame, path: Path) -> None:
    write_atomically(path, lambda t: write_frame(table, t, "csv"))


@dataclass(frozen=True)
class Column:
    """One column of a leaderboard, the same on its page, in its CSV and on the results page that is kept.

    ``shown`` is its text on pages; ``kept`` the CSV's columns and their values; ``ranking`` the one way of ranking that
    shows it on pages, if it is for one alone. Each line's rank and name come first, its data sets last.
    """

    heading: str
    shown: Callable[[Line], str]
    kept: Mapping[str, Callable[[Line], Any]] = field(default_factory=dict)
    number: bool = True
    ranking: str = ""


COLUMNS = (
    Column("score", lambda line: _digits(line.score), {"score": lambda line: line.score}),
    Column(
        SHOWN,
        lambda line: " – ".join(map(_digits, (line.low, line.high))),
        {"low": lambda line: line.low, "high": lambda line: line.high},
    ),
    Column(
        "mean rank",
        lambda line: _digits(line.mean_rank),
        {"mean_rank": lambda line: line.mean_rank or ""},
        True,
        "ranks",
    ),
    Column(
        "submitted",
        lambda line: line.created.strftime("%Y-%m-%d %H:%M"),
        {"submitted": lambda line: line.created.isoformat()},
        False,
    ),
    Column("learner", lambda line: _learner(line.learner), number=False),
    Column("fact sheet", lambda line: "yes" if line.fact_sheet else "missing", number=False),
)


def columns_of(ranking: str) -> list[Column]:
    """The columns that pages show under one way of ranking."""
    return [column for column in COLUMNS if column.ranking in ("", ranking)]


def _digits(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _learner(facts: Mapping[str, Any]) -> str:
    before = facts.get("pretrained")
    return " · ".join(filter(None, (facts.get("method"), facts.get("net"), before and f"trained before on {before}")))


def export_csv(lines: Sequence[Line], named: bool = True) -> str:
    """A leaderboard as CSV, data sets by name or by number; names that would be taken for a formula are quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    datasets = sorted({name for line in lines for name in line.by_dataset})
    headings = datasets if named else list(scores.numbers(datasets).values())
    kept = {name: value for column in COLUMNS for name, value in column.kept.items()}
    writer.writerow(["rank", "name", *kept, *headings])
    for line in lines:
        name = f"'{line.name}" if line.name[:1] in "=+-@" else line.name
        rank = line.rank if line.rank is not None else "unranked"
        values = [line.by_dataset.get(dataset, "") for dataset in datasets]
        writer.writerow([rank, name, *(value(line) for value in kept.values()), *values])
    return out.getvalue()
