"""Are the images good? Populations, samples that no supervised model gets right, and the ceiling of a split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from handful.data import bfs
from handful.data.taxonomy import Taxonomy
from handful.errors import BadInput, Infeasible
from handful.methods.zero_shot.linear import softmax_regression

Probe = Literal["softmax", "ridge"]
RIDGE = 0.3


def population(labels: Sequence[str] | NDArray, classes: Sequence[str]) -> NDArray[np.int64]:
    """Images per class; a class without any is refused by name."""
    names, counts = np.unique(np.asarray(labels), return_counts=True)
    found = dict(zip(names.tolist(), counts.tolist(), strict=True))
    empty = [c for c in classes if c not in found]
    if empty:
        raise BadInput(f"{len(empty)} classes have no image ({', '.join(empty[:5])}); leave them out")
    return np.array([found[c] for c in classes])


def non_overlapping(taxonomy: Taxonomy, classes: Sequence[str], n: int, rng: np.random.Generator) -> list[str]:
    """Up to ``n`` classes in random order, none above or below another."""
    nodes = taxonomy.index(classes)
    return [str(taxonomy.ids[nodes[i]]) for i in _fitting(_kin(taxonomy, nodes), rng.permutation(len(nodes)), n)]


def _kin(taxonomy: Taxonomy, nodes: NDArray[np.int64]) -> list[set[int]]:
    order = np.argsort(nodes)
    owner, node, _ = bfs.reach(*taxonomy.up, nodes)
    at = np.minimum(np.searchsorted(nodes[order], node), len(nodes) - 1)
    inside = nodes[order][at] == node
    kin: list[set[int]] = [set() for _ in nodes]
    for a, b in zip(owner[inside].tolist(), order[at[inside]].tolist(), strict=True):
        kin[a].add(b)
        kin[b].add(a)
    return kin


def _fitting(kin: list[set[int]], order: NDArray, n: int) -> list[int]:
    out: list[int] = []
    blocked: set[int] = set()
    for i in order.tolist():
        if len(out) == n:
            break
        if i not in blocked:
            out.append(i)
            blocked |= kin[i]
    return out


def probe(
    x: NDArray,
    y: NDArray[np.int64],
    test: NDArray,
    *,
    kind: Probe = "softmax",
    decay: float | None = None,
    steps: int = 60,
) -> NDArray[np.int64]:
    """A linear classifier on frozen features, in place of the paper's fine-tuned last layer: predictions for ``test``.

    ``softmax`` is that layer itself, fitted by L-BFGS; ``ridge`` regresses on the classes' indicators, one linear
    system for all classes: on 200 classes of real features as accurate and twenty times faster.
    """
    a = torch.as_tensor(np.asarray(x, dtype=np.float32))
    mean, scale = a.mean(0), a.std(0).clamp_min(1e-6) * a.shape[1] ** 0.5
    a, b = (a - mean) / scale, (torch.as_tensor(np.asarray(test, dtype=np.float32)) - mean) / scale
    n, target = int(y.max()) + 1, torch.as_tensor(y)
    if kind == "softmax":
        strength = 2 * (1e-3 if decay is None else decay) / n
        weight, bias = softmax_regression(a, target, n, decay=strength, steps=steps)
        return (b @ weight.T + bias).argmax(1).numpy()
    # Features have unit mean square together, so the regulariser is a share of the images.
    strength = (RIDGE if decay is None else decay) * len(a) / a.shape[1]
    share = torch.nn.functional.one_hot(target, n).to(a.dtype)
    gram = a.T @ a + strength * torch.eye(a.shape[1])
    weight = torch.cholesky_solve(a.T @ (share - share.mean(0)), torch.linalg.cholesky(gram))
    return (b @ weight + share.mean(0)).argmax(1).numpy()


@dataclass(frozen=True, eq=False)
class Selection:
    """Result of the sample-wise selection: per image, how often it was tested and how often it was right.

    ``good`` is the paper's X': right at least once, that is, not consistently misclassified. With few classes a
    round, an image may be right for want of the class it looks like, so rounds should hold most of the classes.
    """

    tested: NDArray[np.int64]
    right: NDArray[np.int64]
    rounds: int

    @property
    def good(self) -> NDArray[np.bool_]:
        return self.right > 0


def select_samples(
    features: NDArray,
    labels: Sequence[str] | NDArray,
    taxonomy: Taxonomy,
    *,
    classes_per_round: int = 1000,
    train_per_class: int = 250,
    kind: Probe = "ridge",
    seed: int = 0,
    max_rounds: int = 1000,
) -> Selection:
    """Algorithm 1 of Appendix C: repeat supervised probes on non-overlapping classes until every image was tested.

    Each round draws classes that are not each other's parents, trains on ``train_per_class`` images of each, tests on
    their others. Classes with untested images are drawn first, which changes no outcome but ends the loop sooner.
    """
    x, named = _checked(features, labels)
    rng = np.random.default_rng([seed, 0xA161])
    names, y = np.unique(named, return_inverse=True)
    counts = np.bincount(y)
    small = names[counts <= train_per_class]
    if len(small):
        raise Infeasible(
            f"{len(small)} classes have no image left beyond the {train_per_class} trained on "
            f"({', '.join(small[:5])}); train on fewer or leave them out"
        )
    kin = _kin(taxonomy, taxonomy.index(names, where="labels"))
    tested, right = np.zeros(len(y), np.int64), np.zeros(len(y), np.int64)
    rounds = 0
    while (tested == 0).any() and rounds < max_rounds:
        rounds += 1
        waiting = np.bincount(y, weights=tested == 0, minlength=len(names)) > 0
        order = np.lexsort((rng.random(len(names)), ~waiting))
        chosen = np.array(_fitting(kin, order, classes_per_round))
        if len(chosen) < 2:
            raise Infeasible("no two of these classes are free of overlap; a probe needs two")
        fresh = rng.random(len(y))
        rank = np.empty(len(y), np.int64)
        by = np.lexsort((fresh, y))
        rank[by] = np.arange(len(y)) - np.repeat(np.cumsum(counts) - counts, counts)
        new = np.full(len(names), -1)
        new[chosen] = np.arange(len(chosen))
        used = new[y] >= 0
        fit, ask = used & (rank < train_per_class), used & (rank >= train_per_class)
        guess = probe(x[fit], new[y[fit]], x[ask], kind=kind)
        tested[ask] += 1
        right[ask] += guess == new[y[ask]]
    return Selection(tested=tested, right=right, rounds=rounds)


@dataclass(frozen=True, eq=False)
class Ceiling:
    """What a supervised probe reaches on the very classes of a split, each image tested once."""

    correct: NDArray[np.bool_]
    labels: NDArray[np.str_]

    @property
    def value(self) -> float:
        return float(self.correct.mean())

    @property
    def by_class(self) -> tuple[list[str], list[float]]:
        """Names of the classes and the accuracy of each."""
        names, place = np.unique(self.labels, return_inverse=True)
        return names.tolist(), (np.bincount(place, weights=self.correct) / np.bincount(place)).tolist()

    def relative(self, accuracy: float) -> float:
        """Zero-shot accuracy as a share of the ceiling: what the paper asks benchmarks to report."""
        return accuracy / self.value if self.value else float("nan")


def ceiling(
    features: NDArray,
    labels: Sequence[str] | NDArray,
    classes: Sequence[str],
    *,
    folds: int = 4,
    kind: Probe = "softmax",
    seed: int = 0,
) -> Ceiling:
    """The supervised ceiling of a split by cross-validation: the same features, images of the same classes."""
    x, named = _checked(features, labels)
    inside = np.isin(named, np.asarray(list(classes)))
    x, named = x[inside], named[inside]
    counts = population(named, list(classes))
    if counts.min() < folds:
        poor = list(classes)[int(counts.argmin())]
        raise Infeasible(
            f"{poor} has {counts.min()} images, fewer than the {folds} folds; use fewer folds or leave it out"
        )
    _, y = np.unique(named, return_inverse=True)
    rng = np.random.default_rng([seed, 0xCE11])
    fold = np.empty(len(y), np.int64)
    order = np.lexsort((rng.random(len(y)), y))
    fold[order] = np.arange(len(y)) % folds
    correct = np.zeros(len(y), dtype=bool)
    for f in range(folds):
        out = fold == f
        correct[out] = probe(x[~out], y[~out], x[out], kind=kind) == y[out]
    return Ceiling(correct=correct, labels=named)


def _checked(features: NDArray, labels: Sequence[str] | NDArray) -> tuple[NDArray[np.float32], NDArray[np.str_]]:
    x, named = np.asarray(features, dtype=np.float32), np.asarray(labels).astype(str)
    if x.ndim != 2 or len(x) != len(named):
        raise BadInput(f"features of shape {x.shape} for {len(named)} labels; give one row of features an image")
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if len(bad):
        raise BadInput(f"the features of image {bad[0]} ({named[bad[0]]}) are not finite ({len(bad)} such images)")
    return x, named
