"""What to label next: strategies that order the photos without a label."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from handful.studio.learning import Learned, Shown

Strategy = Callable[[np.ndarray, np.ndarray, np.ndarray | None, int, int], np.ndarray]
"""Features without a label, features with one, probabilities of the first (None before there are any), how many, seed."""
ENOUGH = 3
"""Labels per class, on average, below which uncertainty is of nothing: a boundary drawn by two photos says little."""


def random(free: np.ndarray, known: np.ndarray, p: np.ndarray | None, count: int, seed: int) -> np.ndarray:
    """Any photos."""
    return np.random.default_rng(seed + len(known)).permutation(len(free))[:count]


def margin(free: np.ndarray, known: np.ndarray, p: np.ndarray | None, count: int, seed: int) -> np.ndarray:
    """The photos whose two likeliest classes are nearest to each other (Scheffer et al., 2001)."""
    if p is None:
        return random(free, known, p, count, seed)
    top = np.sort(p, axis=1)[:, -2:]
    return np.argsort(top[:, 1] - top[:, 0], kind="stable")[:count]


def diverse(free: np.ndarray, known: np.ndarray, p: np.ndarray | None, count: int, seed: int) -> np.ndarray:
    """Each the farthest from all that is labelled or chosen before it (k-center greedy, Sener & Savarese, ICLR 2018)."""
    near = (free @ known.T).max(1) if len(known) else free @ free.mean(0) * -1
    out: list[int] = []
    for _ in range(min(count, len(free))):
        at = int(np.argmin(near))
        out.append(at)
        near = np.maximum(near, free @ free[at])
        near[out] = np.inf
    return np.array(out, dtype=np.int64)


def typical(free: np.ndarray, known: np.ndarray, p: np.ndarray | None, count: int, seed: int) -> np.ndarray:
    """Each in the densest place that no labelled photo covers yet (ProbCover, Yehuda et al., NeurIPS 2022).

    A photo covers those more similar to it than the median similarity of photos to their fifth neighbour, so the radius
    follows the photos at hand. When all are covered, the farthest comes next.
    """
    rng = np.random.default_rng(seed)
    pool = np.sort(rng.permutation(len(free))[:3000])
    x = free[pool]
    like = x @ x.T
    bound = float(np.median(np.sort(like, axis=1)[:, -min(6, len(x))]))
    covers = like >= bound
    open_ = (x @ known.T).max(1) < bound if len(known) else np.ones(len(x), dtype=bool)
    out: list[int] = []
    for _ in range(min(count, len(x))):
        worth = (covers & open_[None]).sum(1)
        worth[out] = -1
        at = int(worth.argmax())
        if worth[at] <= 0:
            rest = np.setdiff1d(np.arange(len(x)), out)
            more = diverse(x[rest], np.concatenate([known, x[out]]), p, count - len(out), seed)
            out += rest[more].tolist()
            break
        out.append(at)
        open_ &= ~covers[at]
    return pool[np.array(out, dtype=np.int64)]


STRATEGIES: dict[str, Strategy] = {"random": random, "margin": margin, "diverse": diverse, "typical": typical}
NAMES = ("auto", *STRATEGIES)


def order_of(strategy: str, shown: Shown, learned: Learned, count: int, seed: int) -> tuple[list[int], str]:
    """Numbers of the photos to label next, and the strategy that was used.

    ``auto`` is random photos until there is a classifier of classes with three labels each on average, and from then on the least
    certain: measured by `benchmarks/next_labels.py`, typical photos first need more labels in the end than random ones. A strategy
    that needs a classifier falls back to random photos while there is none.
    """
    free = np.array([i for i, n in enumerate(shown.numbers.tolist()) if n not in shown.labels], dtype=np.int64)
    if not len(free):
        return [], strategy
    taken = np.setdiff1d(np.arange(len(shown.numbers)), free)
    p = None
    if learned.classifier is not None:
        p = learned.classifier.answer(shown.x[free].astype(np.float64))[0]
    if strategy == "auto":
        enough = p is not None and np.bincount(learned.y).mean() >= ENOUGH
        strategy = "margin" if enough else "random"
    if strategy == "margin" and p is None:
        strategy = "random"
    x = shown.x.astype(np.float64)
    picked = STRATEGIES[strategy](x[free], x[taken], p, count, seed)
    return shown.numbers[free[picked]].tolist(), strategy
