"""How much of the error each flaw explains (2^3 configurations), and accuracy against a property of classes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput
from handful.metrics.structure import relations

FACTORS = ("visual", "semantic", "structural")


@dataclass(frozen=True)
class FactorAnalysis:
    """Accuracy in all configurations and the mean improvement that each factor brings over the others (Figure 6)."""

    accuracy: dict[tuple[bool, ...], float]
    impact: dict[str, float]

    @property
    def reported(self) -> float:
        """Accuracy as the benchmark reports it: nothing corrected."""
        return self.accuracy[(False,) * len(self.impact)]

    @property
    def remaining_error(self) -> float:
        """Error that is left with every flaw removed: the model's own."""
        return 1 - self.accuracy[(True,) * len(self.impact)]


def factor_analysis(accuracy: Callable[..., float], factors: Sequence[str] = FACTORS) -> FactorAnalysis:
    """Run ``accuracy(visual=..., semantic=..., structural=...)`` with each factor corrected or not (Appendix D).

    The impact of a factor is its mean improvement over all configurations of the others; impacts need not sum to the
    whole difference when factors interact.
    """
    table = {
        on: float(accuracy(**dict(zip(factors, on, strict=True))))
        for on in itertools.product((False, True), repeat=len(factors))
    }
    impact = {}
    for i, name in enumerate(factors):
        rises = [table[on] - table[(*on[:i], False, *on[i + 1 :])] for on in table if on[i]]
        impact[name] = float(np.mean(rises))
    return FactorAnalysis(table, impact)


def factors_of(
    taxonomy: Taxonomy,
    scores: NDArray,
    truth: Sequence[str] | NDArray,
    candidates: Sequence[str],
    *,
    good_images: NDArray[np.bool_],
    good_classes: NDArray[np.bool_],
    keep: Sequence[str] = (),
    bound: str = "upper",
) -> FactorAnalysis:
    """The factor analysis of one method's scores (images, candidates).

    Visual drops images that are not ``good_images``; semantic drops candidate classes that are not ``good_classes``
    (their images and their columns; those in ``keep``, such as the training classes of GZSL, keep their columns);
    structural counts relatives as right: ancestors (``bound="lower"``) or descendants too (``"upper"``, the paper's).
    """
    if bound not in ("lower", "upper"):
        raise BadInput(f"bound is 'lower' or 'upper', not {bound!r}")
    columns = np.asarray(list(candidates))
    named = np.asarray(truth).astype(str)
    if scores.shape != (len(named), len(columns)):
        raise BadInput(f"scores of shape {scores.shape} for {len(named)} images and {len(columns)} candidates")
    fine = np.asarray(good_classes, dtype=bool) | np.isin(columns, np.asarray(list(keep)))
    right = 1 if bound == "lower" else 2

    def accuracy(*, visual: bool, semantic: bool, structural: bool) -> float:
        rows = np.asarray(good_images, dtype=bool).copy() if visual else np.ones(len(named), dtype=bool)
        open_ = fine if semantic else np.ones(len(columns), dtype=bool)
        rows &= np.isin(named, columns[open_])
        if not rows.any():
            raise BadInput(
                "no image is left once poor images and poorly named classes are dropped; loosen the thresholds"
            )
        guess = columns[open_][scores[np.ix_(rows, open_)].argmax(axis=1)]
        if not structural:
            return float(np.mean(guess == named[rows]))
        return float(np.mean(relations(taxonomy, named[rows], guess) <= right))

    return factor_analysis(accuracy)


@dataclass(frozen=True, eq=False)
class Against:
    """Accuracy of groups of classes against a property of theirs, and how the two go together."""

    value: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    size: int

    @property
    def correlation(self) -> tuple[float, float, float]:
        """Pearson's r and its 95% interval over groups (Fisher's z); the interval is nan below four groups."""
        if len(self.value) < 2 or np.ptp(self.value) == 0 or np.ptp(self.accuracy) == 0:
            return (float("nan"),) * 3
        r = float(np.corrcoef(self.value, self.accuracy)[0, 1])
        if len(self.value) < 4:
            return r, float("nan"), float("nan")
        z, half = np.arctanh(min(max(r, -1 + 1e-12), 1 - 1e-12)), stats.norm.ppf(0.975) / np.sqrt(len(self.value) - 3)
        return r, float(np.tanh(z - half)), float(np.tanh(z + half))


def accuracy_against(
    values: NDArray, scores: NDArray, truth: Sequence[str] | NDArray, classes: Sequence[str], *, size: int = 100
) -> Against:
    """Sort classes by a property, cut groups of ``size``, score each group alone (Figures 3, 5, 9).

    Each group is its own test set: only its classes compete for its images. A last group smaller than ``size`` is
    left out, since accuracy depends on the number of classes.
    """
    columns, named = np.asarray(list(classes)), np.asarray(truth).astype(str)
    if len(values) != len(columns) or scores.shape != (len(named), len(columns)):
        raise BadInput(
            f"{len(values)} values and scores {scores.shape} for {len(columns)} classes and {len(named)} images"
        )
    if len(columns) < size:
        raise BadInput(f"{len(columns)} classes make no group of {size}; use a smaller one")
    order = np.argsort(values, kind="stable")
    mean, found = [], []
    for start in range(0, len(columns) - size + 1, size):
        group = order[start : start + size]
        rows = np.isin(named, columns[group])
        if not rows.any():
            raise BadInput(f"the classes from {columns[group[0]]} on have no image; leave classes without images out")
        guess = columns[group][scores[np.ix_(rows, group)].argmax(axis=1)]
        mean.append(float(np.mean(values[group])))
        found.append(float(np.mean(guess == named[rows])))
    return Against(np.array(mean), np.array(found), size)
