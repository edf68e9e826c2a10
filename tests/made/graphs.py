"""Random hierarchies with their networkx twin, for tests that compare with an independent answer."""

from __future__ import annotations

import networkx as nx
import numpy as np

from handful.data.taxonomy import Taxonomy


def random_dag(n: int, seed: int) -> tuple[Taxonomy, nx.DiGraph]:
    rng = np.random.default_rng(seed)
    edges = {(i, int(rng.integers(max(0, i - 12), i))) for i in range(1, n)}
    edges |= {(i, int(rng.integers(0, i))) for i in rng.integers(2, n, size=n // 10).tolist()}
    named = [(f"c{child:04d}", f"c{parent:04d}") for child, parent in sorted(edges)]
    return Taxonomy.of(named), nx.DiGraph(named)
