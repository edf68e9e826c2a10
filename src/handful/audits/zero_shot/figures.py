"""Figures of the zero-shot audit as SVG text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from handful.audits.zero_shot.factors import Against, FactorAnalysis
from handful.audits.zero_shot.neighbours import Neighbourhoods
from handful.metrics.structure import Shares
from handful.report.figures import COLOURS, STYLE, as_svg


def _axes(width: float = 5.0, height: float = 3.1) -> tuple[Any, Any]:
    with plt.rc_context(STYLE):  # type: ignore[arg-type]
        figure, axes = plt.subplots(figsize=(width, height))
    return figure, axes


def _svg(figure: Any) -> str:
    with plt.rc_context(STYLE):  # type: ignore[arg-type]
        return as_svg(figure)


def shares_figure(found: Mapping[str, Shares]) -> str:
    """Where predictions fall (Figures 2, 11, 12): one bar a setting, four shares."""
    figure, axes = _axes(height=0.9 + 0.45 * len(found))
    left = np.zeros(len(found))
    for ink, part in zip(COLOURS, ("true", "ancestor", "descendant", "unrelated"), strict=False):
        values = np.array([getattr(s, part) for s in found.values()])
        axes.barh(list(found), values, left=left, color=ink, label=part)
        left += values
    axes.set_xlim(0, 1)
    axes.invert_yaxis()
    axes.set_xlabel("share of predictions")
    axes.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
    return _svg(figure)


def cumulative_figure(values: NDArray, label: str, *, log: bool = False, mark: float | None = None) -> str:
    """Cumulative share of classes against a property (Figure 13: label frequency)."""
    figure, axes = _axes()
    ordered = np.sort(values)
    axes.step(ordered, np.arange(1, len(ordered) + 1) / len(ordered), where="post", color=COLOURS[0])
    if log:
        axes.set_xscale("symlog")
    if mark is not None:
        axes.axvline(mark, color=COLOURS[4], linestyle="--", linewidth=1)
    axes.set_xlabel(label)
    axes.set_ylabel("share of classes")
    axes.set_ylim(0, 1)
    return _svg(figure)


def histogram_figure(values: NDArray, label: str, *, bins: int = 30) -> str:
    """How a property is spread over classes; a bar a value where they are whole numbers."""
    figure, axes = _axes()
    whole = np.issubdtype(values.dtype, np.integer)
    axes.hist(values, bins=np.arange(values.min() - 0.5, values.max() + 1) if whole else bins, color=COLOURS[0])
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel(label)
    axes.set_ylabel("classes")
    return _svg(figure)


def neighbours_figure(found: Neighbourhoods) -> str:
    """The words nearest to a word and to its classes' parents (Figure 4): one colour a word, the word itself as a ring."""
    figure, axes = _axes()
    for ink, word, points in zip(COLOURS, found.words, found.points, strict=False):
        axes.scatter(points[:, 0], points[:, 1], color=ink, s=12, alpha=0.6, linewidths=0, label=word)
        axes.scatter(*points[0], s=60, facecolors="none", edgecolors=ink, linewidths=1.5)
    axes.set_xticks([])
    axes.set_yticks([])
    _legend(axes, len(found.words))
    return _svg(figure)


def depth_figure(rows: Sequence[tuple[int, int, float]]) -> str:
    """Mean population by distance from the root (Figure 15)."""
    figure, axes = _axes()
    axes.bar([r[0] for r in rows], [r[2] for r in rows], color=COLOURS[0])
    axes.set_xlabel("distance from the root")
    axes.set_ylabel("mean images per class")
    return _svg(figure)


def against_figure(found: Mapping[str, Against], label: str, *, log: bool = False) -> str:
    """Accuracy of groups of classes against a property (Figures 3, 5, 9), one colour a method."""
    figure, axes = _axes()
    for i, (name, one) in enumerate(found.items()):
        ink = COLOURS[i % len(COLOURS)]
        axes.scatter(one.value, 100 * one.accuracy, color=ink, s=16, label=f"{name} (r = {one.correlation[0]:.2f})")
    if log:
        axes.set_xscale("symlog")
    axes.set_xlabel(label)
    axes.set_ylabel("accuracy, %")
    axes.set_ylim(bottom=0)
    _legend(axes, len(found))
    return _svg(figure)


def kinds_figure(found: Mapping[str, Mapping[str, NDArray]], label: str) -> str:
    """Accuracy of test sets of two kinds (Figure 3, right): a dot a set, one colour a method, a bar at the mean."""
    kinds = list(next(iter(found.values())))
    figure, axes = _axes()
    step = 0.7 / max(1, len(found))
    for i, (name, sides) in enumerate(found.items()):
        ink = COLOURS[i % len(COLOURS)]
        for at, kind in enumerate(kinds):
            x = at + (i - (len(found) - 1) / 2) * step
            axes.scatter([x] * len(sides[kind]), 100 * sides[kind], color=ink, s=14, label=name if at == 0 else None)
            mean = 100 * sides[kind].mean()
            axes.plot([x - step / 3, x + step / 3], [mean, mean], color=ink, linewidth=2)
    axes.set_xticks(range(len(kinds)), [f"{k} {label}" for k in kinds])
    axes.set_xlim(-0.6, len(kinds) - 0.4)
    axes.set_ylabel("accuracy, %")
    axes.set_ylim(bottom=0)
    _legend(axes, len(found))
    return _svg(figure)


def _legend(axes: Any, n: int, across: int = 3) -> None:
    """Above the axes, where no dot can be."""
    axes.legend(
        ncols=min(n, across),
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        frameon=False,
        fontsize="small",
        handletextpad=0.3,
    )


def factors_figure(found: Mapping[str, FactorAnalysis]) -> str:
    """What the reported error is made of (Figures 6, 16, 17)."""
    figure, axes = _axes(height=0.9 + 0.45 * len(found))
    left = np.zeros(len(found))
    parts = ["accuracy", *next(iter(found.values())).impact, "model error"]
    for ink, part in zip((COLOURS[1], COLOURS[0], COLOURS[2], COLOURS[5], COLOURS[4]), parts, strict=False):
        values = np.array([_share(one, part) for one in found.values()])
        axes.barh(list(found), 100 * values, left=left, color=ink, label=part)
        left = left + 100 * values
    axes.set_xlim(0, 100)
    axes.invert_yaxis()
    axes.set_xlabel("% of images")
    _legend(axes, len(parts))
    return _svg(figure)


def _share(found: FactorAnalysis, part: str) -> float:
    if part == "accuracy":
        return found.reported
    whole = max(1 - found.reported - found.remaining_error, 0.0)
    if part == "model error":
        return 1 - found.reported - (whole if any(v > 0 for v in found.impact.values()) else 0.0)
    # Mean improvements need not add up to the whole difference; those that are one are drawn in proportion.
    total = sum(max(v, 0.0) for v in found.impact.values())
    return max(found.impact[part], 0.0) / total * whole if total else 0.0


def growing_figure(
    ratio: NDArray, lines: Mapping[str, tuple[NDArray, NDArray]], *, ceiling: NDArray | None = None, chance: float
) -> str:
    """Accuracy of methods on splits of growing R with 95% half intervals, the supervised ceiling and chance beside."""
    figure, axes = _axes(7.0, 4.2)
    for i, (name, (value, half)) in enumerate(lines.items()):
        axes.errorbar(
            ratio,
            100 * value,
            100 * half,
            color=COLOURS[i % len(COLOURS)],
            marker="o",
            markersize=3,
            linewidth=1,
            capsize=2,
            label=name,
        )
    if ceiling is not None:
        axes.plot(ratio, 100 * ceiling, color="black", linestyle="--", linewidth=1, label="supervised ceiling")
    axes.axhline(100 * chance, color="grey", linestyle=":", linewidth=1, label="chance")
    axes.set_xlabel("structural ratio R of the test split")
    axes.set_ylabel("top-1 accuracy, %")
    axes.set_ylim(bottom=0)
    _legend(axes, len(lines) + 2, across=4)
    return _svg(figure)
