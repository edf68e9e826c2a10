"""The detailed results page of one run: numbers with intervals and figures as inline SVG, one file, no scripts."""

from __future__ import annotations

import html
import io
import threading

import numpy as np
import polars as pl

from handful.challenge import scores
from handful.metrics.base import SHOWN

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#1c2330;background:#fff}
h1{font-size:1.6rem;margin:0 0 .3rem}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}
.score{font-size:2.6rem;font-weight:650;letter-spacing:-.02em}.note{color:#5b6577}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:.25rem .8rem;text-align:right}
th{font-weight:600;border-bottom:2px solid #d5dae3}td{border-bottom:1px solid #eaedf2}
td:first-child,th:first-child{text-align:left}
.figures{display:flex;flex-wrap:wrap;gap:1.5rem}svg{max-width:100%;height:auto}
"""
_DRAWING = threading.Lock()
_INK, _BLUE, _ORANGE, _GREEN = "#1c2330", "#2f6fb3", "#d9822b", "#5a9e6f"


def _svg(figure) -> str:  # type: ignore[no-untyped-def]
    import matplotlib

    out = io.StringIO()
    # One at a time: the service draws in several threads, and matplotlib's settings and fonts are the process's.
    with _DRAWING, matplotlib.rc_context({"svg.hashsalt": "handful"}):
        figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def _axes(width: float = 5.2, height: float = 3.2):  # type: ignore[no-untyped-def]
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=_INK)
    return figure, axes


def line_figure(estimates: dict[str, scores.Estimate], label: str) -> str:
    """Score by ways or shots with intervals."""
    items = sorted(estimates.items(), key=lambda item: int(item[0]))
    figure, axes = _axes()
    x, y = [int(name) for name, _ in items], [each.value for _, each in items]
    half = [0.0 if each.n < 2 else each.half for _, each in items]
    axes.errorbar(x, y, yerr=half, fmt="o-", color=_BLUE, ecolor="#9dbcdb", capsize=2, markersize=4, linewidth=1.5)
    axes.set_xlabel(label)
    axes.set_ylabel("normalised accuracy")
    axes.axhline(0, color="#aab2bf", linewidth=0.8, linestyle=":")
    return _svg(figure)


def bar_figure(estimates: dict[str, scores.Estimate]) -> str:
    """Score by data set with intervals."""
    names = list(estimates)
    figure, axes = _axes(5.2, 0.8 + 0.38 * len(names))
    half = [0.0 if each.n < 2 else each.half for each in estimates.values()]
    axes.barh(
        range(len(names)), [each.value for each in estimates.values()], xerr=half, color=_BLUE, ecolor=_INK, height=0.6
    )
    axes.set_yticks(range(len(names)), [name[:28].replace("$", r"\$") for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("normalised accuracy")
    return _svg(figure)


def histogram_figure(frame: pl.DataFrame) -> str:
    """How the tasks' scores spread."""
    figure, axes = _axes()
    values = frame[scores.SCORE].to_numpy()
    # Fixed bins: tasks that all score alike leave no range to divide.
    axes.hist(values, bins=np.linspace(min(0.0, float(values.min())), 1.0, 21), color=_GREEN, edgecolor="white")
    axes.set_xlabel("normalised accuracy of a task")
    axes.set_ylabel("tasks")
    return _svg(figure)


def difficulty_figure(table: pl.DataFrame) -> str:
    """Stacked bars that add up to one: worst baseline, modelling difficulty, intrinsic difficulty."""
    names = table["dataset"].to_list()
    figure, axes = _axes(1.8 + 0.55 * len(names), 3.4)
    worst, modelling, intrinsic = (table[name].to_numpy() for name in ("worst", "modelling", "intrinsic"))
    axes.bar(names, worst, color=_BLUE, label="worst baseline")
    axes.bar(names, modelling, bottom=worst, color=_ORANGE, label="modelling difficulty")
    axes.bar(names, intrinsic, bottom=worst + modelling, color=_GREEN, label="intrinsic difficulty")
    axes.set_ylim(min(0, worst.min()), 1)
    axes.set_ylabel("normalised accuracy")
    axes.tick_params(axis="x", rotation=40)
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    return _svg(figure)


def _table(title: str, estimates: dict[str, scores.Estimate]) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{each.n}</td><td>{each.value:.3f}</td>"
        f"<td>{'' if each.n < 2 else f'± {each.half:.3f}'}</td></tr>"
        for name, each in estimates.items()
    )
    head = f"<tr><th>{html.escape(title)}</th><th>tasks</th><th>score</th><th>{SHOWN}</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def results_page(frame: pl.DataFrame, title: str) -> str:
    """The page, complete in one file."""
    final, each_seed = scores.final_score(frame), scores.repeats(frame)
    parts = {key: scores.by(frame, key) for key in ("dataset", "ways", "shots")}
    for key in ("ways", "shots"):
        parts[key] = dict(sorted(parts[key].items(), key=lambda item: int(item[0])))
    half = "" if final.n < 2 else f" ± {final.half:.3f}"
    seeds = ""
    if len(each_seed) > 1:
        values = ", ".join(f"{seed.value:.3f}" for seed in each_seed)
        seeds = f"<p class=note>The lowest of {len(each_seed)} seeds counts: {values}.</p>"
    figures = bar_figure(parts["dataset"]) + line_figure(parts["ways"], "ways")
    figures += line_figure(parts["shots"], "shots") + histogram_figure(frame)
    tables = "".join(f"<h2>By {key}</h2>{_table(key, values)}" for key, values in parts.items())
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title>"
        f'<meta name=viewport content="width=device-width,initial-scale=1"><style>{_STYLE}</style>'
        f"<h1>{html.escape(title)}</h1><p><span class=score>{final.value:.3f}</span>{half}</p>{seeds}"
        f"<p class=note>Normalised accuracy: 0 is guessing, 1 is perfect. Mean over {final.n} tasks, {SHOWN} interval over "
        f"tasks; intervals do not decide ranks.</p><div class=figures>{figures}</div>{tables}</html>"
    )
