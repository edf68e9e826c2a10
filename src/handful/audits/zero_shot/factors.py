"""How much of the error each flaw explains (2^3 configurations), and accuracy against a property of classes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from handful.audits.zero_shot.tasks import ClassAnswers
from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput
from handful.metrics.base import NORMAL
from handful.metrics.structure import RELATIONS, relations

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
    truth: Sequence[str] | NDArray,
    guess: Sequence[str] | NDArray,
    among_good: Sequence[str] | NDArray,
    *,
    good_images: NDArray[np.bool_],
    bound: str = "upper",
) -> FactorAnalysis:
    """The factor analysis of one method's answers, one row per image.

    Visual drops images that are not ``good_images``. Semantic drops classes of poor words: ``among_good`` holds the
    answers without them as candidates, empty for their own images. Structural counts relatives as right: ancestors
    (``bound="lower"``) or descendants too (``"upper"``, the paper's).
    """
    if bound not in ("lower", "upper"):
        raise BadInput(f"bound is 'lower' or 'upper', not {bound!r}")
    named, answers = np.asarray(truth).astype(str), {False: np.asarray(guess), True: np.asarray(among_good)}
    sizes = {len(named), len(answers[False]), len(answers[True]), len(good_images)}
    if len(sizes) > 1:
        raise BadInput(f"the true classes, both kinds of answers and the images' quality differ in number ({sizes})")
    right = 1 if bound == "lower" else 2
    code = {on: np.full(len(named), len(RELATIONS), dtype=np.int8) for on in answers}
    for on, given in answers.items():
        code[on][given != ""] = relations(taxonomy, named[given != ""], given[given != ""])

    def accuracy(*, visual: bool, semantic: bool, structural: bool) -> float:
        rows = answers[semantic] != ""
        if visual:
            rows = rows & np.asarray(good_images, dtype=bool)
        if not rows.any():
            raise BadInput(
                "no image is left once poor images and poorly named classes are dropped; loosen the thresholds"
            )
        return float(np.mean(code[semantic][rows] <= (right if structural else 0)))

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
        z, half = np.arctanh(min(max(r, -1 + 1e-12), 1 - 1e-12)), NORMAL / np.sqrt(len(self.value) - 3)
        return r, float(np.tanh(z - half)), float(np.tanh(z + half))


def accuracy_against(values: NDArray, asked: ClassAnswers, view: str, groups: NDArray[np.int64]) -> Against:
    """Mean property and accuracy of every group of a view (Figures 3, 5): each group is its own test set."""
    if len(values) != len(groups) or len(groups) != len(asked.candidates):
        raise BadInput(f"{len(values)} values and {len(groups)} groups for {len(asked.candidates)} candidates")
    kept = groups >= 0
    number = np.where(asked.guess[view] >= 0, groups[asked.truth], -1)
    size = int(np.bincount(groups[kept])[0]) if kept.any() else 0
    if not kept.any():
        raise BadInput("no group of classes is large enough; use a smaller size")
    mean = np.bincount(groups[kept], weights=values[kept]) / np.bincount(groups[kept])
    found = np.bincount(number[number >= 0], weights=asked.hit[view][number >= 0], minlength=len(mean))
    images = np.bincount(number[number >= 0], minlength=len(mean))
    if (images == 0).any():
        raise BadInput("a group of classes has no image; leave classes without images out")
    return Against(mean, found / images, size)
