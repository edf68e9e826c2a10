"""Are images seen twice? Exact and near copies across splits and under different classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from scipy import stats

from handful.audits.context import Context
from handful.audits.drawing import across
from handful.audits.finding import Diagnosis, Finding, above
from handful.audits.scan import Scan, exact_pairs, groups, near_pairs, scan, standardised
from handful.metrics.base import LEVEL, Estimate
from handful.metrics.zero_shot import over_classes
from handful.report.figures import STYLE, as_svg

CLOSE = 0.98
"""Cosine of centred features from which two images are called neighbours."""
AMBER, RED = 0.001, 0.01
THRESHOLD = f"share of images with a copy: red from {RED:.0%}, amber from {AMBER:.1%}"


@dataclass(frozen=True, eq=False)
class Copies:
    """Pairs of images: exact copies, near copies of the audited images, and neighbours in feature space."""

    seen: Scan
    exact: np.ndarray
    near: np.ndarray
    close: np.ndarray
    asked: int


def copies(context: Context) -> Copies:
    """All pairs of an audit, found once."""
    if "copies" not in context.kept:
        rows = context.whole_part.rows
        seen = scan_of(context)
        near, asked = near_pairs(seen, rows, context.seed)
        context.kept["copies"] = Copies(seen, exact_pairs(seen), near, neighbours(context), asked)
    return context.kept["copies"]


def scan_of(context: Context) -> Scan:
    if "scan" not in context.kept:
        context.kept["scan"] = scan(
            context.collection, context.whole_part.rows, max(context.seconds, 0.1 * context.budget), context.seed
        )
    return context.kept["scan"]


def neighbours(context: Context) -> np.ndarray:
    """Pairs of images, of all that are embedded so far and the pool, whose centred features point the same way."""
    view = context.view
    view.read(context.part.rows)
    rows = np.flatnonzero(view._place >= 0)
    if len(rows) > 12_000:
        rows = np.sort(np.random.default_rng(context.seed).permutation(rows)[:12_000])
    x = view.read(rows)
    x = standardised(x - x.mean(0, keepdims=True))
    found = []
    for start in range(0, len(rows), 1024):
        i, j = np.nonzero(x[start : start + 1024] @ x.T >= CLOSE)
        found.append(np.stack([i + start, j], 1)[i + start < j])
    both = np.concatenate(found) if found else np.zeros((0, 2), dtype=np.int64)
    return rows[both].reshape(-1, 2)


def copy_groups(context: Context) -> np.ndarray:
    """A number an image of the collection, equal for exact and near copies."""
    found = copies(context)
    return groups(len(context.collection), found.exact, found.near)


class Duplicates(Diagnosis):
    """Copies by pixel digest, near copies by perceptual hash and thumbnail, neighbours by features."""

    name: ClassVar[str] = "duplicates"
    question: ClassVar[str] = "Are images seen twice?"
    topic: ClassVar[str] = "clean"
    cost: ClassVar[float] = 1.0

    def run(self, context: Context) -> list[Finding]:
        found, part = copies(context), context.whole_part
        number = np.full(len(context.collection), -1, dtype=np.int64)
        whole = context.collection.whole
        number[whole.rows] = whole.classes
        out = []
        if context.collection.card.schemes:
            split = split_numbers(context)
            out.append(self._finding(context, found, part.rows, split, "splits"))
        out.append(self._finding(context, found, part.rows, number, "classes"))
        return out

    def _finding(self, context: Context, found: Copies, rows: np.ndarray, side: np.ndarray, kind: str) -> Finding:
        """How many of the audited images have a copy on another side (split or class)."""
        asked = np.zeros(len(context.collection), dtype=bool)
        asked[rows] = True
        hit: dict[str, np.ndarray] = {}
        pairs: dict[str, np.ndarray] = {}
        for name, both in (
            ("exact copies", found.exact),
            ("near copies", found.near),
            ("feature neighbours", found.close),
        ):
            if name == "exact copies":
                both = all_pairs(both, found)
            over = both[(side[both[:, 0]] != side[both[:, 1]]) & (side[both] >= 0).all(1) & asked[both].any(1)]
            if kind == "classes":
                over = over[asked[over].all(1)]
            pairs[name] = over
            images = np.unique(over)
            hit[name] = images[asked[images]]
        exact, near = hit["exact copies"], np.setdiff1d(hit["near copies"], hit["exact copies"])
        either = np.union1d(exact, near)
        share, low, high = wilson(len(either), len(rows))
        classes = np.full(len(context.collection), -1)
        classes[rows] = context.whole_part.classes
        own = np.bincount(context.whole_part.classes)
        per_class = np.bincount(classes[either], minlength=len(own)) / own if len(either) else np.zeros(len(own))
        where = "in another split" if kind == "splits" else "under another class"
        sentence = (
            f"{len(either):,} of {len(rows):,} images ({share:.2%}) have a copy {where}: {len(exact):,} exact, {len(near):,} near; "
            f"{len(hit['feature neighbours']):,} have a neighbour in feature space there"
        )
        scheme = context.collection.card.schemes[0] if kind == "splits" else ""
        if scheme:
            sentence += f" (scheme {scheme!r})"
        if not found.seen.complete:
            sentence += f"; {len(found.seen.rows):,} of {len(context.collection):,} images were looked at in the time"
        elif found.asked and found.asked < len(rows):
            sentence += f"; near copies of {found.asked:,} of them were looked for"
        bars = {name: Estimate(*wilson(len(images), len(rows)), "images", len(rows)) for name, images in hit.items()}
        shown = [*pairs["exact copies"].tolist(), *pairs["near copies"].tolist()][:6]
        details: dict[str, Any] = {name.replace(" ", "_"): len(images) for name, images in hit.items()}
        details |= {"images": len(rows), "scanned": len(found.seen.rows), "first_pairs": shown}
        alt = "Bars, % of images: " + ", ".join(f"{k} {e.value:.2%}" for k, e in bars.items()) + "."
        figure = across(bars, label="% of images", marks={"red": RED}) + (
            pictures(context, shown) if shown and context.images else ""
        )
        if shown and context.images:
            alt += f" Below, {len(shown)} such pairs."
        return Finding(
            self.name, sentence, share, low, high, "new images of the same classes", THRESHOLD, above(share, AMBER, RED),
            figure, details, f"copies-across-{kind}", alt, at_least_nothing(over_classes(per_class)),
        )  # fmt: skip


def all_pairs(exact: np.ndarray, found: Copies) -> np.ndarray:
    """Every two of a group of equal images, not only each with the first (groups of more than fifty are cut)."""
    if not len(exact):
        return exact
    order = exact[np.argsort(exact[:, 0], kind="stable")]
    out = [order]
    starts = np.flatnonzero(np.r_[True, order[1:, 0] != order[:-1, 0]])
    for members in np.split(order[:, 1], starts[1:]):
        if 1 < len(members):
            i, j = np.triu_indices(min(len(members), 50), 1)
            out.append(np.stack([members[i], members[j]], 1))
    return np.concatenate(out)


def split_numbers(context: Context) -> np.ndarray:
    """A number an image for its split under the first scheme; -1 for none."""
    names = context.collection.table[context.collection.card.schemes[0]].cast(pl.String).fill_null("").to_numpy()
    values, codes = np.unique(names, return_inverse=True)
    return np.where(values == "", -1, np.arange(len(values)))[codes.reshape(-1)]


def wilson(hits: int, n: int, level: float = LEVEL) -> tuple[float, float, float]:
    """A share with Wilson's interval."""
    if n == 0:
        return float("nan"), float("nan"), float("nan")
    z = float(stats.norm.ppf((1 + level) / 2))
    p = hits / n
    middle, half = p + z * z / (2 * n), z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = float((middle - half) / (1 + z * z / n)), float((middle + half) / (1 + z * z / n))
    return p, 0.0 if hits == 0 else low, 1.0 if hits == n else high


def at_least_nothing(found: Estimate) -> Estimate:
    """A share's interval does not go below 0."""
    return Estimate(found.value, max(0.0, found.low), found.high, found.over, found.n)


def pictures(context: Context, pairs: list[list[int]]) -> str:
    """Some pairs, one above the other."""
    with plt.rc_context({**STYLE, "axes.grid": False}):
        figure, axes = plt.subplots(2, len(pairs), figsize=(0.9 * len(pairs) + 0.2, 2.0), squeeze=False)
        for column, pair in enumerate(pairs):
            for row, image in enumerate(pair):
                axis, pixels = axes[row][column], context.collection.read(np.asarray([image]))[0]
                axis.imshow(pixels[..., 0] if pixels.shape[-1] == 1 else pixels, cmap="gray", vmin=0, vmax=255)
                axis.set_xticks([])
                axis.set_yticks([])
                axis.set_xlabel(str(image), fontsize=7)
        return as_svg(figure)
