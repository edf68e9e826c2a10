"""The tables of a comparison: scores with ties, pairs, data sets, contexts, ways and shots; and over several comparisons."""

from __future__ import annotations

import dataclasses
from math import isfinite
from typing import Any

import numpy as np
import polars as pl

from handful.errors import HandfulError
from handful.metrics import mean_interval
from handful.metrics.base import SHOWN
from handful.metrics.context import PREFIX, by_context
from handful.report.comparison import Comparison
from handful.report.entries import RunEntry
from handful.report.page import unique
from handful.report.summary import binned
from handful.report.tables import Sheet, cells_grid, unused
from handful.runs import Run
from handful.runs.filled import footnotes, learning_of, net_of

SHOWN_COLUMNS, SHOWN_PAIRS = 7, 28


def slug(text: str) -> str:
    """A file name's part of any text."""
    words = "".join(c if c.isascii() and c.isalnum() else " " for c in text.lower()).split()
    return "-".join(words)[:60] or "tasks"


def p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def pooled(comparison: Comparison, label: str) -> Run:
    """One run with the tasks of all training seeds."""
    runs = comparison.runs[label]
    if len(runs) == 1:
        return runs[0]
    return dataclasses.replace(runs[0], frame=pl.concat([r.frame for r in runs], how="diagonal_relaxed"))


def method_facts(comparison: Comparison) -> list[dict[str, Any]]:
    """One row per method, best first: estimate, verdict, p against the best."""
    rows = []
    for label in comparison.labels:
        e, pair = comparison.estimate(label), comparison.against_best(label)
        rows.append(
            {
                "method": label,
                "transductive": comparison.runs[label][0].transductive,
                "learning": comparison.learning(label),
                "net": net_of(comparison.runs[label][0]),
                "metric": comparison.column,
                "scale": e.scale,
                **e.as_dict(),
                "training_seeds": len(comparison.runs[label]),
                "verdict": comparison.verdict(label),
                "p": None if pair is None else pair.p,
                "p_holm": None if pair is None else pair.adjusted,
            }
        )
    missing = float("inf") if comparison.lower else float("-inf")
    return sorted(rows, key=lambda r: r["value"] if r["value"] == r["value"] else missing, reverse=not comparison.lower)


def pair_facts(comparison: Comparison) -> list[dict[str, Any]]:
    """One row per pair of methods, the better one first; smallest p first."""
    rows = []
    for pair in comparison.pairs:
        first, second, d = comparison.labels[pair.first], comparison.labels[pair.second], pair.difference
        value, low, high = d.value, d.low, d.high
        if (value > 0) if comparison.lower else (value < 0):
            first, second, value, low, high = second, first, -value, -high, -low
        rows.append(
            {
                "first": first,
                "second": second,
                "metric": comparison.column,
                "difference": value,
                "low": low,
                "high": high,
                "n": d.n,
                "p": pair.p,
                "p_holm": pair.adjusted,
                "different": pair.adjusted < comparison.alpha,
            }
        )
    return sorted(rows, key=lambda r: (r["p_holm"], r["p"], -abs(r["difference"])))


def scores_sheet(comparison: Comparison, name: str) -> Sheet:
    facts = method_facts(comparison)
    others = [c for c in comparison.columns() if c != comparison.column]
    learned, nets = any(r["learning"] for r in facts), any(r["net"] for r in facts)
    frame, shown, bold = [], [], set()
    for i, row in enumerate(facts):
        more = {c: comparison.estimate(row["method"], c) for c in others}
        numbers = {
            f"{c}{end}": v for c, e in more.items() for end, v in (("", e.value), ("_low", e.low), ("_high", e.high))
        }
        frame.append({**row, **numbers})
        cells = {"method": row["method"]}
        if learned:
            cells["learning"] = row["learning"]
        if nets:
            cells["net"] = row["net"]
        cells[comparison.column] = str(comparison.estimate(row["method"]))
        if row["verdict"] != "worse" and len(facts) > 1:
            bold.add((i, len(cells) - 1))
        if len(facts) > 1:
            cells["against the best"] = "best" if row["p_holm"] is None else f"{row['verdict']}, p {_p(row['p_holm'])}"
        cells.update({c: str(e) for c, e in list(more.items())[: SHOWN_COLUMNS - 1] if c not in cells})
        shown.append(cells)
    first = facts[0]
    ties = "; bold: the best and what is not significantly different from it" if len(facts) > 1 else ""
    caption = f"{comparison.title}: mean ± half the {SHOWN} interval over {first['over']}{ties}"
    caption = "; ".join([caption, *footnotes(comparison.labels, [r["learning"] for r in facts])])
    return Sheet(f"{name}-scores", _frame(frame), _frame(shown), caption, frozenset(bold))


def pairs_sheet(comparison: Comparison, name: str) -> Sheet | None:
    facts = pair_facts(comparison)
    if not facts:
        return None
    best = comparison.labels[comparison.best]
    kept = facts if len(facts) <= SHOWN_PAIRS else [r for r in facts if best in (r["first"], r["second"])]
    shown = [
        {
            "pair": f"{r['first']} − {r['second']}",
            "difference": f"{comparison.scale * r['difference']:+.2f}",
            f"{SHOWN} interval": f"{comparison.scale * r['low']:.2f} to {comparison.scale * r['high']:.2f}",
            "p": p_text(r["p"]),
            "p (Holm)": p_text(r["p_holm"]),
            "verdict": "different" if r["different"] else "tie",
        }
        for r in kept
    ]
    left = "" if kept is facts else f"; the {len(facts) - len(kept)} pairs without {best} are in the exported tables"
    caption = f"{comparison.title}: paired differences of each task's {comparison.column}, {comparison.test} test{left}"
    return Sheet(f"{name}-pairs", _frame(facts), _frame(shown), caption)


def cut_sheet(comparison: Comparison, name: str, key: str) -> Sheet | None:
    """The compared column by data set, ways or shots; every value of the key in the numbers, a grid to read."""
    if key not in comparison.tasks.columns or comparison.tasks[key].n_unique() < 2:
        return None
    rows: list[dict[str, Any]] = []
    cells: dict[str, dict[str, str]] = {}
    for label in comparison.labels:
        for r in pooled(comparison, label).by(key, column=comparison.column).iter_rows(named=True):
            rows.append({"method": label, "metric": comparison.column, **r})
            half = (r["high"] - r["low"]) / 2
            cells.setdefault(str(r[key]), {})[label] = (
                f"{comparison.scale * r['value']:.2f} ± {comparison.scale * half:.2f}"
            )
    head = unused(key, comparison.labels)
    shown = [{head: value, **by} for value, by in cells.items()]
    return Sheet(f"{name}-by-{key}", _frame(rows), _frame(shown), f"{comparison.title}: {comparison.column} by {key}")


def contexts_sheet(comparison: Comparison, name: str) -> Sheet | None:
    rows: list[dict[str, Any]] = []
    for label in comparison.labels:
        run = pooled(comparison, label)
        if any(c.startswith(PREFIX) for c in run.frame.columns):
            rows += [{"method": label, **r} for r in by_context(run.frame).iter_rows(named=True)]
    if len({r["context"] for r in rows}) < 2:
        return None
    head = unused("context", comparison.labels)
    order = sorted({r["context"] for r in rows}, key=lambda c: (min(r["value"] for r in rows if r["context"] == c), c))
    shown = [{head: c, **{r["method"]: f"{100 * r['value']:.2f}" for r in rows if r["context"] == c}} for c in order]
    caption = f"{comparison.title}: accuracy (%) by context, worst first"
    return Sheet(f"{name}-by-context", _frame(rows), _frame(shown), caption)


def overview_sheet(comparisons: list[Comparison]) -> Sheet | None:
    """Methods that several comparisons share against those comparisons, best and ties in bold; None if there are none."""
    every = [label for comparison in comparisons for label in comparison.labels]
    labels = [label for label in dict.fromkeys(every) if every.count(label) > 1]
    comparisons = [comparison for comparison in comparisons if set(labels) & set(comparison.labels)]
    if not labels:
        return None
    titles = unique([unused(b.title, ["method"]) for b in comparisons])
    shown, rows, bold = [], [], set()
    for i, label in enumerate(labels):
        cells = {"method": label, **dict.fromkeys(titles, "")}
        for j, (comparison, title) in enumerate(zip(comparisons, titles, strict=True)):
            if label in comparison.labels:
                e, verdict = comparison.estimate(label), comparison.verdict(label)
                cells[title] = str(e)
                place = {"tasks": title, "method": label, "metric": comparison.column, "scale": e.scale}
                rows.append({**place, **e.as_dict(), "verdict": verdict})
                if len(comparison.labels) > 1 and verdict != "worse":
                    bold.add((i, j + 1))
        shown.append(cells)
    caption = (
        f"mean ± half the {SHOWN} interval; bold: the best of a column and what is not significantly different from it"
    )
    return Sheet("overview", _frame(rows), _frame(shown), caption, frozenset(bold))


def reported_sheet(rows: list[dict[str, Any]], facts: dict[str, Any], name: str) -> Sheet:
    """A recipe's cells: measured, with what the paper reports in brackets."""
    frame = _frame(rows)
    tests = list(dict.fromkeys(r["test"] for r in rows))
    where = facts["reported_on"] or "the paper's own collection"
    head = f"{facts['title']}" + (f" ({facts['paper']}, {facts['table']})" if facts["paper"] else "")
    caption = f"{head}: measured on {facts['collection']}, mean ± half the {SHOWN} interval"
    if any(r["reported"] is not None for r in rows):
        caption += f"; [reported] on {where}"
    caption = "; ".join([caption, *footnotes((r["method"] for r in rows), (r["learning"] for r in rows))])
    return Sheet(name, frame, cells_grid(frame, tests), caption)


def reported_rows(entries: list[RunEntry]) -> list[dict[str, Any]]:
    """One row per method and test of a recipe, measured beside reported, in the units shown."""
    cells: dict[tuple[str, str], list[RunEntry]] = {}
    for entry in entries:
        if entry.test:
            cells.setdefault((entry.label, entry.test), []).append(entry)
    rows = []
    for (label, test), found in cells.items():
        metric = found[0].metric or found[0].run.main
        each = [e.run.estimate(metric) for e in found]
        one = each[0] if len(each) == 1 else mean_interval(np.asarray([e.value for e in each]), "training seeds")
        scale = each[0].scale
        rows.append(
            {
                "method": label,
                "transductive": found[0].run.transductive,
                "learning": learning_of(found[0].run.method),
                "net": net_of(found[0].run),
                "test": test,
                "metric": metric,
                "measured": scale * one.value,
                "half": scale * one.half,
                "over": one.over,
                "n": one.n,
                "reported": found[0].reported[0],
                "reported_half": found[0].reported[1],
            }
        )
    return rows


def curve(comparison: Comparison, label: str, key: str) -> list[tuple[float, float, float, float]]:
    try:
        return binned(pooled(comparison, label), key, comparison.column)
    except HandfulError:
        return []


def finite(facts: Any) -> Any:
    """Facts that JSON can hold: a number that is not finite becomes nothing."""
    if isinstance(facts, dict):
        return {k: finite(v) for k, v in facts.items()}
    if isinstance(facts, (list, tuple)):
        return [finite(v) for v in facts]
    return None if isinstance(facts, float) and not isfinite(facts) else facts


def _frame(rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, infer_schema_length=None)


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"
