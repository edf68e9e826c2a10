"""Figures of the audit as SVG text: bars across, stacked bars, a waterfall, counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import MaxNLocator

from handful.metrics.base import Estimate
from handful.report.figures import COLOURS, STYLE, as_svg

GREY = "#9aa3ad"


def short(name: str, most: int = 26) -> str:
    """A name that fits beside a bar."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def across(
    bars: Mapping[str, Estimate | float],
    chance: float | None = None,
    label: str = "accuracy (%)",
    *,
    marks: Mapping[str, float] | None = None,
    scale: float = 100.0,
) -> str:
    """Horizontal bars, in percent, with their intervals and values; dotted lines where guessing or a threshold lies."""
    values = [(e.value, e.low, e.high) if isinstance(e, Estimate) else (e, np.nan, np.nan) for e in bars.values()]
    lines = {**({} if chance is None else {"guessing": chance}), **(marks or {})}
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(4.5, 0.95 + 0.36 * len(bars)))
        at = np.arange(len(bars))[::-1]
        widths = [scale * v if isfinite(v) else 0.0 for v, _, _ in values]
        axis.barh(at, widths, 0.62, color=[COLOURS[i % len(COLOURS)] for i in range(len(bars))])
        ends = [
            max(w, scale * high if isfinite(high) else 0.0, 0.0) for w, (_, _, high) in zip(widths, values, strict=True)
        ]
        right = max([*ends, *(scale * v for v in lines.values()), 1e-9])
        for y, end, (v, low, high) in zip(at, ends, values, strict=True):
            if isfinite(low) and isfinite(high):
                axis.plot([scale * low, scale * high], [y, y], color="#222", lw=1.4)
            said = "none" if not isfinite(v) else f"{scale * v:,.0f}" if scale == 1 else f"{scale * v:.3g}"
            axis.text(end + 0.015 * right, y, said, va="center", fontsize=8)
        axis.set_yticks(at, [short(name) for name in bars])
        left = min([0.0, *(scale * low for _, low, _ in values if isfinite(low)), *widths])
        axis.set_xlim(left * 1.05, right * 1.16)
        axis.grid(axis="y", visible=False)
        axis.set_xlabel(label)
        for name, place in lines.items():
            axis.axvline(scale * place, color="#555", lw=1, ls=":")
            axis.annotate(
                name, (scale * place, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 3), textcoords="offset points",
                ha="center", va="bottom", fontsize=7.5, color="#555",
            )  # fmt: skip
        return as_svg(figure)


def stacked(rows: Mapping[str, Sequence[float]], parts: Sequence[str], label: str) -> str:
    """Horizontal bars of shares, in percent, that add up within each row."""
    shown = dict(list(rows.items())[:24])
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(4.5, 1.25 + 0.34 * len(shown)))
        at = np.arange(len(shown))[::-1]
        left = np.zeros(len(shown))
        for i, part in enumerate(parts):
            wide = 100 * np.asarray([values[i] for values in shown.values()])
            axis.barh(at, wide, 0.62, left=left, color=COLOURS[i % len(COLOURS)], label=part)
            left = left + wide
        axis.set_yticks(at, [short(name) for name in shown])
        axis.grid(axis="y", visible=False)
        axis.set_xlabel(label)
        figure.legend(loc="outside upper center", ncols=min(len(parts), 3), frameon=False, fontsize=8)
        return as_svg(figure)


def waterfall(
    steps: Mapping[str, Estimate],
    total: Estimate,
    label: str = "accuracy (%)",
    classes: Mapping[str, Estimate] | None = None,
) -> str:
    """Steps that add up to a total, each from where the last ended, drawn downwards.

    The dark line is a step's interval for new tasks; the pale one below it, where ``classes`` has one, that for new classes.
    """
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(4.5, 1.1 + 0.38 * (len(steps) + 1)))
        at, edge = len(steps), 0.0
        ends: list[float] = [0.0]
        for i, (name, step) in enumerate(steps.items()):
            wide = 100 * step.value
            colour = GREY if i == 0 else COLOURS[1] if i < len(steps) - 1 else COLOURS[0]
            axis.barh(at, wide, 0.62, left=edge, color=colour)
            if i and isfinite(step.low):
                axis.plot([edge + 100 * step.low, edge + 100 * step.high], [at, at], color="#222", lw=1.2)
            further = (classes or {}).get(name)
            if i and further is not None and isfinite(further.low):
                axis.plot([edge + 100 * further.low, edge + 100 * further.high], [at - 0.2] * 2, color="#999", lw=1.2)
                ends += [edge + 100 * further.low, edge + 100 * further.high]
            new = edge + wide
            axis.plot([new, new], [at - 1.31, at + 0.31], color="#777", lw=0.7)
            end = max(edge, new, edge + 100 * step.high if i and isfinite(step.high) else 0)
            axis.text(end + 1.2, at, f"{wide:+.1f}" if i else f"{wide:.1f}", va="center", fontsize=8)
            ends += [edge, new, end]
            at, edge = at - 1, new
        axis.barh(at, 100 * total.value, 0.62, color=COLOURS[2])
        axis.text(100 * total.value + 1.2, at, f"{100 * total.value:.1f}", va="center", fontsize=8, fontweight="bold")
        axis.set_yticks(range(len(steps) + 1), ["the score", *reversed([short(s) for s in steps])])
        axis.set_xlim(min(ends) * 1.05, max(*ends, 100 * total.value) + 12)
        axis.grid(axis="y", visible=False)
        axis.set_xlabel(label)
        return as_svg(figure)


def counts(values: Sequence[float] | np.ndarray, label: str, up: str = "classes", bins: int = 24) -> str:
    """How a number is spread."""
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(4.5, 2.3))
        x = np.asarray(values, dtype=float)
        if len(x) and np.ptp(x) > 0:
            axis.hist(x, bins=min(bins, max(4, len(np.unique(x)))), color=COLOURS[0])
        elif len(x):
            axis.bar([x[0]], [len(x)], 0.1 * max(abs(x[0]), 1), color=COLOURS[0])
            axis.set_xlim(x[0] - max(abs(x[0]), 1), x[0] + max(abs(x[0]), 1))
        axis.yaxis.set_major_locator(MaxNLocator(integer=True))
        axis.grid(axis="x", visible=False)
        axis.set_xlabel(label)
        axis.set_ylabel(up)
        return as_svg(figure)


def falling(
    points: Sequence[tuple[float, float]], mark: tuple[float, float], xlabel: str, ylabel: str, level: float
) -> str:
    """A curve on logarithmic axes with one marked point and a level to be reached."""
    with plt.rc_context(STYLE):
        figure, axis = plt.subplots(figsize=(4.5, 2.7))
        x, y = np.asarray(points, dtype=float).T
        axis.plot(x, y, color=COLOURS[0], lw=1.6)
        axis.plot(
            [mark[0]],
            [mark[1]],
            "o",
            color=COLOURS[1],
            ms=6,
            label=f"planned: {mark[0]:,.0f} tasks, {mark[1]:.2f} points",
        )
        axis.axhline(level, color="#555", lw=1, ls=":", label=f"{level:g} point")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_yticks(
            [t for t in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if 0.9 * y.min() <= t <= 1.1 * y.max()]
        )
        axis.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
        axis.minorticks_off()
        axis.set_xlabel(xlabel)
        axis.set_ylabel(ylabel)
        axis.legend(frameon=False, fontsize=8)
        return as_svg(figure)
