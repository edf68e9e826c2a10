"""Figures as SVG text: bars with intervals, curves with bands, heat maps. Same numbers, same bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

COLOURS = ("#1f6f8b", "#c8553d", "#588157", "#8a5a9e", "#d19a2a", "#4a6fa5", "#7f7f7f", "#b5577d", "#3f9c95", "#6b4e3d")
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e8eb",
    "axes.axisbelow": True,
    "svg.hashsalt": "handful",
    "svg.fonttype": "path",
    "figure.constrained_layout.use": True,
}


def as_svg(figure: Any) -> str:
    """The figure as one SVG element without date, so that equal figures are equal texts; its ids are its own."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None})
    plt.close(figure)
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", stream.getvalue(), flags=re.S)
    return unique_ids(text[text.index("<svg") :])


def unique_ids(svg: str) -> str:
    """Prefix every id with a hash of the drawing, so that several drawings can stand in one page."""
    import hashlib

    mark = "f" + hashlib.sha256(svg.encode()).hexdigest()[:8]
    svg = re.sub(r'id="([^"]+)"', rf'id="{mark}-\1"', svg)
    svg = re.sub(r'href="#([^"]+)"', rf'href="#{mark}-\1"', svg)
    return re.sub(r"url\(#([^)]+)\)", rf"url(#{mark}-\1)", svg)


def shortened(text: str, most: int = 24) -> str:
    """The text on one line, its end cut with dots where it is longer; a dollar sign stays a dollar sign."""
    text = " ".join(text.split())
    text = text if len(text) <= most else text[: most - 1] + "…"
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")  # a legend leaves out "_names"


def bars(
    labels: Sequence[str],
    groups: Mapping[str, Sequence[tuple[float, float]]],
    ylabel: str = "accuracy (%)",
    chance: float | None = None,
    width: float = 5.2,
) -> str:
    """Grouped bars: for each group one (value, half interval) a label, in percent."""
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(max(width, 0.9 * len(labels) * max(1, 0.4 * len(groups))), 3.1))
        step = 0.8 / max(1, len(groups))
        x = np.arange(len(labels))
        for i, (name, values) in enumerate(groups.items()):
            value = np.asarray([v for v, _ in values], dtype=float)
            half = np.nan_to_num(np.asarray([h for _, h in values], dtype=float))
            axis.bar(
                x + (i - (len(groups) - 1) / 2) * step,
                value,
                step * 0.92,
                yerr=half,
                capsize=2.5,
                color=COLOURS[i % len(COLOURS)],
                error_kw={"lw": 1},
                label=shortened(name, 32),
            )
        axis.set_xticks(
            x,
            [shortened(label, 32) for label in labels],
            rotation=0 if max(map(len, labels)) < 14 and len(labels) < 6 else 25,
            ha="center" if len(labels) < 6 and max(map(len, labels)) < 14 else "right",
        )
        axis.grid(axis="x", visible=False)
        axis.set_ylabel(ylabel)
        if chance is not None:
            axis.axhline(chance, color="#555", lw=1, ls=":", label="chance")
        if len(groups) > 1 or chance is not None:
            axis.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return as_svg(figure)


def curves(
    lines: Mapping[str, Sequence[tuple[float, float, float, float]]],
    xlabel: str,
    ylabel: str = "accuracy (%)",
    logx: bool = False,
    chance: Sequence[tuple[float, float]] | None = None,
) -> str:
    """Curves with bands: for each line points (x, value, low, high), in percent."""
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(4.6, 3.1))
        for i, (name, points) in enumerate(lines.items()):
            x, value, low, high = np.asarray(points, dtype=float).T
            axis.plot(x, value, "-o", ms=3, lw=1.5, color=COLOURS[i % len(COLOURS)], label=shortened(name))
            axis.fill_between(x, low, high, color=COLOURS[i % len(COLOURS)], alpha=0.18, lw=0)
        if chance is not None:
            x, value = np.asarray(chance, dtype=float).T
            axis.plot(x, value, ":", color="#555", lw=1, label="chance")
        if logx:
            axis.set_xscale("log")
        elif all(float(p[0]).is_integer() for points in lines.values() for p in points):
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_xlabel(xlabel)
        axis.set_ylabel(ylabel)
        axis.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return as_svg(figure)


def reliability(tables: Mapping[str, np.ndarray]) -> str:
    """Share right over mean probability in each bin, of tables (3, bins) of queries, summed probabilities and right answers."""
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(4.6, 3.1))
        axis.plot([0, 100], [0, 100], ":", color="#555", lw=1)
        for i, (name, (n, confidence, right)) in enumerate(tables.items()):
            some = n > 0
            x, y = 100 * confidence[some] / n[some], 100 * right[some] / n[some]
            colour = COLOURS[i % len(COLOURS)]
            axis.plot(x, y, lw=1.2, color=colour, label=shortened(name))
            axis.scatter(x, y, s=4 + 60 * n[some] / n.sum(), color=colour)
        axis.set_xlabel("probability given (%)")
        axis.set_ylabel("share right (%)")
        axis.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return as_svg(figure)


def loss_curve(log: Path) -> str:
    """The loss of a training's log, step by step and smoothed over a fiftieth of it, and its validation scores."""
    import polars as pl

    frame = pl.read_csv(log, infer_schema_length=None)
    window = max(1, frame.height // 50)
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(6.2, 3.1))
        axis.plot(frame["step"], frame["loss"], lw=0.6, color=COLOURS[0], alpha=0.35)
        axis.plot(
            frame["step"], frame["loss"].rolling_mean(window, min_samples=1), lw=1.5, color=COLOURS[0], label="loss"
        )
        axis.set_xlabel("step")
        axis.set_ylabel("loss")
        scored = frame.drop_nulls("valid") if "valid" in frame.columns else frame.clear()
        if scored.height:
            right = axis.twinx()
            right.plot(scored["step"], scored["valid"], "-o", ms=3, lw=1.2, color=COLOURS[1], label="validation")
            right.set_ylabel("validation score")
        figure.legend(frameon=False, fontsize=8, loc="outside upper right", ncols=2)
        return as_svg(figure)


def side_bars(
    labels: Sequence[str],
    groups: Mapping[str, Sequence[tuple[float, float]]],
    xlabel: str = "accuracy (%)",
) -> str:
    """Bars lying on their side, for many labels: for each group one (value, half interval) a label."""
    thick = 0.17 if len(groups) > 2 else 0.2
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(5.2, 1.0 + len(labels) * (thick * len(groups) + 0.16)))
        step = 0.86 / max(1, len(groups))
        y = np.arange(len(labels))
        for i, (name, values) in enumerate(groups.items()):
            value = np.asarray([v for v, _ in values], dtype=float)
            half = np.nan_to_num(np.asarray([h for _, h in values], dtype=float))
            place = y + (i - (len(groups) - 1) / 2) * step
            colour = COLOURS[i % len(COLOURS)]
            axis.barh(
                place,
                value,
                step * 0.9,
                xerr=half,
                capsize=2,
                color=colour,
                error_kw={"lw": 0.9},
                label=shortened(name),
            )
        axis.set_yticks(y, [shortened(label) for label in labels])
        axis.set_ylim(len(labels) - 0.5, -0.5)
        axis.grid(axis="y", visible=False)
        axis.set_xlabel(xlabel)
        if len(groups) > 1:
            figure.legend(frameon=False, fontsize=8, loc="outside upper left", ncols=min(len(groups), 3))
        return as_svg(figure)


def heat(
    values: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    label: str,
    numbers: bool = True,
    blank: float | None = None,
) -> str:
    """A heat map with its numbers written in, but for the value that is left blank."""
    values = np.asarray(values, dtype=float)
    with plt.rc_context({**STYLE, "axes.grid": False}):
        figure, axis = plt.subplots(figsize=(1.6 + 0.55 * len(columns), 1.2 + 0.32 * len(rows)))
        image = axis.imshow(values, cmap="YlGnBu", aspect="auto")
        axis.set_xticks(range(len(columns)), [shortened(c) for c in columns], rotation=35, ha="right")
        axis.set_yticks(range(len(rows)), [shortened(r) for r in rows])
        if numbers and values.size <= 400:
            middle = (np.nanmax(values) + np.nanmin(values)) / 2
            for i, j in np.ndindex(*values.shape):
                if not np.isnan(values[i, j]) and values[i, j] != blank:
                    axis.text(
                        j,
                        i,
                        f"{values[i, j]:.3g}",
                        ha="center",
                        va="center",
                        fontsize=7,
                        color="white" if values[i, j] > middle else "#222",
                    )
        figure.colorbar(image, ax=axis, label=label, fraction=0.05)
        return as_svg(figure)
