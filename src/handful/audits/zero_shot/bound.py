"""A proven ceiling for the structural ratio of any allowed set, so that a built split can say how good it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from handful.data import bfs
from handful.data.taxonomy import Taxonomy

Limit = tuple[NDArray[np.bool_], int]
GOLDEN = (5**0.5 - 1) / 2


def potential(taxonomy: Taxonomy, nodes: NDArray[np.int64], away: NDArray[np.float64]) -> NDArray[np.float64]:
    """The most that each candidate can contribute: away(c) over the distance to the nearest unrelated candidate."""
    return away / _nearest_unrelated(taxonomy, nodes)


def _nearest_unrelated(taxonomy: Taxonomy, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    # Unrelated classes are two steps apart or more, and a sibling is at two; only those without one need a search.
    out = np.full(len(nodes), 2.0)
    inside = np.zeros(len(taxonomy), dtype=bool)
    inside[nodes] = True
    owner, parent = bfs.expand(*taxonomy.up, nodes)
    at, other = bfs.expand(*taxonomy.down, parent)
    sibling = inside[other] & (other != nodes[owner[at]])
    # A child of one's parent may also be one's ancestor or descendant through another path.
    who, whom = owner[at][sibling], other[sibling]
    fine = ~(taxonomy.is_ancestor(whom, nodes[who]) | taxonomy.is_ancestor(nodes[who], whom)) if len(who) else who > 0
    # Two classes that share a child are two steps apart as well.
    owner2, child = bfs.expand(*taxonomy.down, nodes)
    at2, spouse = bfs.expand(*taxonomy.up, child)
    mate = inside[spouse] & (spouse != nodes[owner2[at2]])
    who2, whom2 = owner2[at2][mate], spouse[mate]
    fine2 = (
        ~(taxonomy.is_ancestor(whom2, nodes[who2]) | taxonomy.is_ancestor(nodes[who2], whom2))
        if len(who2)
        else who2 > 0
    )
    has = np.zeros(len(nodes), dtype=bool)
    has[who[fine]] = True
    has[who2[fine2]] = True
    lone = np.flatnonzero(~has)
    for first in range(0, len(lone), 512):
        block = lone[first : first + 512]
        apart = bfs.matrix(*taxonomy.around, nodes[block], nodes).astype(float)
        apart[apart < 0] = np.inf
        apart[np.arange(len(block)), block] = np.inf
        for one, place in enumerate(block.tolist()):
            kin = np.union1d(taxonomy.ancestors(nodes[[place]]), taxonomy.descendants(nodes[[place]]))
            apart[one, np.isin(nodes, kin)] = np.inf
        out[block] = apart.min(axis=1)
    return out


def upper_bound(
    taxonomy: Taxonomy, nodes: NDArray[np.int64], away: NDArray[np.float64], limits: Sequence[Limit], n: int
) -> float:
    """A number that no consistent set of ``n`` of these candidates exceeds.

    Each class counts at most its potential. The best antichain under these weights is bounded by relaxing twice: of
    the order only a forest is kept (each candidate below one nearest candidate ancestor), where the best antichain is
    a sum from the leaves up; and the size and the caps are priced (Lagrange multipliers). Any prices >= 0 give a valid
    bound, so the search over prices only has to be good, not exact.
    """
    worth = potential(taxonomy, nodes, away)
    above = _forest(taxonomy, nodes)
    order = _leaves_first(above)

    def priced(size: float, prices: Sequence[float]) -> float:
        value = worth - size
        for (members, _), price in zip(limits, prices, strict=True):
            value = value - price * members
        total = np.zeros(len(nodes) + 1)
        for level in order:
            here = np.maximum(np.maximum(value[level], total[level]), 0)
            np.add.at(total, above[level], here)
        spent = sum(most * price for (_, most), price in zip(limits, prices, strict=True))
        return float(total[-1]) + n * size + spent

    prices = [0.0] * len(limits)
    top = float(worth.max())
    size = _minimum(lambda x: priced(x, prices), 0.0, top)
    for _ in range(4 if limits else 0):
        for i in range(len(limits)):
            # Only a cap that binds can have a price.
            if limits[i][0].sum() > limits[i][1]:
                prices[i] = _minimum(partial(_with_price, priced, size, prices, i), 0.0, top)
        size = _minimum(lambda x: priced(x, prices), 0.0, top)
    return priced(size, prices) / n


def _with_price(
    priced: Callable[[float, Sequence[float]], float], size: float, prices: Sequence[float], i: int, price: float
) -> float:
    return priced(size, [*prices[:i], price, *prices[i + 1 :]])


def _forest(taxonomy: Taxonomy, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each candidate, the position of one nearest candidate above it; ``len(nodes)`` for none."""
    above = np.full(len(nodes), len(nodes))
    owner, node, dist = bfs.reach(*taxonomy.up, nodes)
    at = np.minimum(np.searchsorted(nodes, node), len(nodes) - 1)
    inside = nodes[at] == node
    owner, at, dist = owner[inside], at[inside], dist[inside]
    order = np.lexsort((at, dist, owner))
    who, first = np.unique(owner[order], return_index=True)
    above[who] = at[order][first]
    return above


def _leaves_first(above: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    height = np.zeros(len(above) + 1, dtype=np.int64)
    while True:
        new = height.copy()
        np.maximum.at(new, above, height[:-1] + 1)
        new[-1] = 0
        if np.array_equal(new, height):
            break
        height = new
    return [np.flatnonzero(height[:-1] == h) for h in range(int(height[:-1].max()) + 1)]


def _minimum(f: Callable[[float], float], low: float, high: float) -> float:
    """Where a convex function is least on an interval, by golden section."""
    a, b = low, high
    c, d = b - GOLDEN * (b - a), a + GOLDEN * (b - a)
    fc, fd = f(c), f(d)
    for _ in range(40):
        if fc <= fd:
            b, d, fd = d, c, fc
            c = b - GOLDEN * (b - a)
            fc = f(c)
        else:
            a, c, fc = c, d, fd
            d = a + GOLDEN * (b - a)
            fd = f(d)
    return min((low, a, b), key=f)
