"""What tests of rules share: a level for tests of distributions, and episodes by class."""

from __future__ import annotations

import numpy as np
from scipy.stats import chisquare

# A test at this level fails by chance once in a hundred thousand seeds; the seeds are fixed.
LEVEL = 1e-5
UNEQUAL = [int(n) for n in np.random.default_rng(1).integers(2, 260, 70)]


def uniform(counts, expected=None) -> bool:
    return chisquare(np.asarray(counts, dtype=float), expected).pvalue > LEVEL


def by_class(episode, rule):
    number = {n: c for c, n in enumerate(rule.part.class_names)}
    own = [number[n] for n in episode.names[0]]
    shots = np.bincount(episode.support_labels, minlength=len(own))
    queries = np.bincount(episode.query_labels, minlength=len(own))
    return own, shots.tolist(), queries.tolist()
