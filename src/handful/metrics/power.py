"""How small a difference a number of tasks can show, and how many tasks a difference needs: the paired t-test's power."""

from __future__ import annotations

from math import ceil, isfinite

import numpy as np
from scipy import optimize, stats

from handful.errors import BadInput


def smallest_difference(spread: float, tasks: int, *, level: float = 0.05, power: float = 0.8) -> float:
    """The true mean difference that a two-sided paired t-test over ``tasks`` tasks finds with probability ``power``.

    ``spread`` is the standard deviation of the per-task differences. The power is that of the noncentral t distribution.
    """
    if tasks < 2:
        raise BadInput(f"a paired test needs at least two tasks, not {tasks}")
    if not spread >= 0 or not isfinite(spread):
        raise BadInput(f"the spread of differences must be a number of at least 0, not {spread}")
    if spread == 0:
        return 0.0
    return float(spread * _shift(tasks, level, power) / np.sqrt(tasks))


def tasks_needed(
    spread: float, difference: float, *, level: float = 0.05, power: float = 0.8, most: int = 10**9
) -> int:
    """The fewest tasks with which a paired t-test finds ``difference`` with probability ``power``."""
    if difference <= 0:
        raise BadInput(f"the difference to be found must be above 0, not {difference}")
    low, high = 2, 2
    while smallest_difference(spread, high, level=level, power=power) > difference:
        low, high = high, high * 2
        if high > most:
            raise BadInput(f"more than {most} tasks would be needed to find a difference of {difference}")
    while low < high:
        middle = (low + high) // 2
        if smallest_difference(spread, middle, level=level, power=power) <= difference:
            high = middle
        else:
            low = middle + 1
    return ceil(high)


def _shift(tasks: int, level: float, power: float) -> float:
    """The noncentrality at which the two-sided t-test has the wanted power."""
    free = tasks - 1
    edge = float(stats.t.ppf(1 - level / 2, free))
    # Beyond a few hundred tasks the noncentral t is the normal to four digits, and far quicker.
    if free > 300:
        return edge + float(stats.norm.ppf(power))
    return float(optimize.brentq(lambda d: float(stats.nct.sf(edge, free, d)) - power, 0.0, edge + 50.0))
