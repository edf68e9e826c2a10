"""The critical-difference diagram: average ranks on a line, bars over methods that cannot be told apart (Demsar 2006)."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from handful.report.comparison import Ranks
from handful.report.figures import COLOURS, STYLE, as_svg, shortened

SIDE, STEP, WIDTH = 1.85, 0.24, 5.6


def rank_diagram(found: Ranks) -> str:
    """An SVG; the best method is at the left."""
    ranks, labels = found.ranking.ranks, found.labels
    k = len(labels)
    order = np.argsort(ranks, kind="stable")
    left, right = list(order[: (k + 1) // 2]), list(order[(k + 1) // 2 :])[::-1]
    bars = 0.2 + 0.14 * len(found.groups)
    top = 0.75 if found.difference is not None else 0.45
    height = top + bars + STEP * len(left) + 0.12

    def x(rank: float) -> float:
        return SIDE + (rank - 1) / (k - 1) * (WIDTH - 2 * SIDE)

    with plt.rc_context({**STYLE, "figure.constrained_layout.use": False}):
        figure = plt.figure(figsize=(WIDTH, height))
        axis = figure.add_axes((0, 0, 1, 1))
        axis.set_xlim(0, WIDTH)
        axis.set_ylim(height - top, -top)
        axis.axis("off")
        ink: dict[str, Any] = {"color": "#222", "lw": 1, "solid_capstyle": "butt"}
        axis.plot([x(1), x(k)], [0, 0], **ink)
        for number in range(1, k + 1):
            axis.plot([x(number)] * 2, [0, -0.07], **ink)
            if k <= 12 or number in (1, k) or number % 5 == 0:
                axis.text(x(number), -0.11, str(number), ha="center", va="bottom", fontsize=8)
        for side, numbers in ((-1, left), (1, right)):
            for row, i in enumerate(numbers):
                y = bars + STEP * row
                end = x(1) - 0.12 if side < 0 else x(k) + 0.12
                colour = COLOURS[int(i) % len(COLOURS)]
                axis.plot([x(ranks[i]), x(ranks[i]), end], [0, y, y], color=colour, lw=1)
                text = (
                    f"{shortened(labels[i], 22)}  {ranks[i]:.2f}"
                    if side < 0
                    else f"{ranks[i]:.2f}  {shortened(labels[i], 22)}"
                )
                axis.text(end + 0.06 * side, y, text, ha="right" if side < 0 else "left", va="center", fontsize=8)
        for row, group in enumerate(found.groups):
            y = 0.14 + 0.14 * row
            ends = [x(ranks[i]) for i in group]
            axis.plot([min(ends) - 0.05, max(ends) + 0.05], [y, y], color="#222", lw=3.2, solid_capstyle="round")
        if found.difference is not None:
            wide = min(found.difference / (k - 1) * (WIDTH - 2 * SIDE), WIDTH - 2 * SIDE)
            axis.plot([x(1), x(1) + wide], [-0.42, -0.42], **ink)
            for end in (x(1), x(1) + wide):
                axis.plot([end, end], [-0.46, -0.38], **ink)
            axis.text(x(1) + wide / 2, -0.47, f"CD = {found.difference:.2f}", ha="center", va="bottom", fontsize=8)
        return as_svg(figure)
