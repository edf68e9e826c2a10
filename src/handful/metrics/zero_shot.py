"""Zero-shot scores: accuracy at 1 and 5 over images or classes, harmonic means, calibrated stacking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from handful.errors import BadInput
from handful.metrics.base import TAILS, Estimate, Metric, mean_interval
from handful.tasks.episode import Episode


def hits_at(scores: NDArray, truth: NDArray, k: int) -> NDArray[np.float64]:
    """Per image, the chance that the truth is among the first k when equal scores are put in random order."""
    own = scores[np.arange(len(truth)), truth][:, None]
    above = (scores > own).sum(axis=1)
    level = (scores == own).sum(axis=1)
    return np.clip((k - above) / level, 0.0, 1.0)


def over_classes(values: NDArray, weights: NDArray | None = None) -> Estimate:
    """A mean with a t interval over classes; with weights (images per class) the ratio mean, its error linearised."""
    if weights is None or len(values) < 2:
        found = mean_interval(values, over="classes")
        if weights is None or not len(values):
            return found
    w = np.asarray(weights, dtype=float)
    mean = float((w * values).sum() / w.sum())
    n = len(values)
    if n < 2:
        return Estimate(mean, float("nan"), float("nan"), "classes", n)
    share = w * (values - mean) / w.mean()
    half = float(stats.t.ppf(TAILS[1], n - 1) * share.std(ddof=1) / np.sqrt(n))
    return Estimate(mean, mean - half, mean + half, "classes", n)


def harmonic(seen: Estimate, unseen: Estimate) -> Estimate:
    """Harmonic mean of two accuracies, its interval by the delta method (the two sets of classes are apart)."""
    s, u = seen.value, unseen.value
    if not s + u > 0:
        return Estimate(0.0, 0.0, 0.0, "classes", seen.n + unseen.n)
    value = 2 * s * u / (s + u)
    half = float(np.hypot(2 * u**2 / (s + u) ** 2 * seen.half, 2 * s**2 / (s + u) ** 2 * unseen.half))
    return Estimate(value, value - half, value + half, "classes", seen.n + unseen.n)


def _per_class(frame: pl.DataFrame) -> pl.DataFrame:
    """One row per class, though tasks beyond the last class ask again."""
    return frame.group_by("class", "seen", maintain_order=True).agg(
        pl.col("hit1").mean(), pl.col("hit5").mean(), pl.col("queries").mean()
    )


class ZeroShotAccuracy(Metric):
    """Accuracy at 1 and 5 over images (the papers' on ImageNet), and averaged over classes (``_class``)."""

    name: ClassVar[str] = "zero-shot"
    columns: ClassVar[tuple[str, ...]] = ("top1", "top5", "top1_class", "top5_class")
    main: ClassVar[str] = "top1"

    def row(self, episode: Episode, scores: np.ndarray, support_scores: np.ndarray | None = None) -> dict[str, float]:
        hit = {k: float(hits_at(scores, episode.query_labels, k).mean()) for k in (1, 5)}
        return {"hit1": hit[1], "hit5": hit[5], **{c: hit[int(c[3])] for c in self.columns}}

    def reduce(self, frame: pl.DataFrame, column: str) -> Estimate:
        return _accuracy(_per_class(frame), int(column[3]), column.endswith("_class"))


class GeneralisedAccuracy(Metric):
    """Harmonic mean of the accuracies on training and on test classes, all classes being candidates, at 1 and 5."""

    name: ClassVar[str] = "generalised-zero-shot"
    columns: ClassVar[tuple[str, ...]] = tuple(
        f"{what}{k}{how}" for how in ("", "_class") for k in (1, 5) for what in ("harmonic", "unseen", "seen")
    )
    main: ClassVar[str] = "harmonic1"

    def row(self, episode: Episode, scores: np.ndarray, support_scores: np.ndarray | None = None) -> dict[str, float]:
        hit = {k: float(hits_at(scores, episode.query_labels, k).mean()) for k in (1, 5)}
        return {"hit1": hit[1], "hit5": hit[5], **{c: hit[_rank(c)] for c in self.columns}}

    def reduce(self, frame: pl.DataFrame, column: str) -> Estimate:
        table, k, per_class = _per_class(frame), _rank(column), column.endswith("_class")
        seen = _accuracy(table.filter(pl.col("seen") == 1), k, per_class)
        unseen = _accuracy(table.filter(pl.col("seen") == 0), k, per_class)
        if column.startswith("harmonic"):
            return harmonic(seen, unseen)
        return unseen if column.startswith("unseen") else seen


def _rank(column: str) -> int:
    return 1 if "1" in column else 5


def _accuracy(table: pl.DataFrame, k: int, per_class: bool) -> Estimate:
    values = table[f"hit{k}"].to_numpy()
    return over_classes(values, None if per_class else table["queries"].to_numpy())


@dataclass(frozen=True, eq=False)
class Stacking:
    """Seen and unseen accuracy as the bias against seen classes grows, and the area under the curve (AUSUC)."""

    bias: NDArray[np.float64]
    seen: NDArray[np.float64]
    unseen: NDArray[np.float64]

    @property
    def harmonic(self) -> NDArray[np.float64]:
        total = self.seen + self.unseen
        return np.divide(2 * self.seen * self.unseen, total, out=np.zeros_like(total), where=total > 0)

    @property
    def best(self) -> float:
        """The bias of the largest harmonic mean."""
        return float(self.bias[int(self.harmonic.argmax())])

    @property
    def area(self) -> float:
        order = np.lexsort((-self.unseen, self.seen))
        return float(np.trapezoid(self.unseen[order], self.seen[order]))


def stacking(scores: NDArray, truth: NDArray, seen_columns: NDArray[np.bool_], *, points: int = 401) -> Stacking:
    """Calibrated stacking (Chao et al., An empirical study and analysis of generalized zero-shot learning, ECCV 2016).

    A bias is subtracted from the scores of seen classes. From minus infinity, where no image is called unseen, to plus
    infinity, where none is called seen; in between at quantiles of the biases that change an answer.
    """
    seen_columns = np.asarray(seen_columns, dtype=bool)
    if seen_columns.all() or not seen_columns.any():
        raise BadInput("calibrated stacking needs seen and unseen candidates; all of these are one kind")
    truth_seen = seen_columns[truth]
    best_seen = np.where(seen_columns, scores, -np.inf).max(axis=1)
    best_unseen = np.where(seen_columns, -np.inf, scores).max(axis=1)
    right = scores[np.arange(len(truth)), truth] >= np.where(truth_seen, best_seen, best_unseen)
    return stacking_of(best_seen - best_unseen, right, truth_seen, points=points)


def stacking_of(
    margin: NDArray, right: NDArray[np.bool_], is_seen: NDArray[np.bool_], *, points: int = 401
) -> Stacking:
    """The same from three facts an image, for candidates too many to keep every score.

    ``margin`` is the best seen score less the best unseen one, ``right`` whether the truth leads its own kind, and
    ``is_seen`` whether the truth is a seen class.
    """
    if is_seen.all() or not is_seen.any():
        raise BadInput("calibrated stacking needs images of seen and of unseen classes; all of these are one kind")
    edges = np.unique(np.quantile(margin, np.linspace(0, 1, points), method="nearest"))
    # Half way between two margins, so that no tie is left to chance.
    inner = np.concatenate([[edges[0] - 1.0], (edges[1:] + edges[:-1]) / 2, [edges[-1] + 1.0]])
    bias = np.concatenate([[-np.inf], inner, [np.inf]])
    called_seen = margin[None, :] > bias[:, None]
    seen = (called_seen & right & is_seen).sum(axis=1) / is_seen.sum()
    unseen = (~called_seen & right & ~is_seen).sum(axis=1) / (~is_seen).sum()
    return Stacking(bias, seen, unseen)
