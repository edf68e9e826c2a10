"""Is the table sound? Images of one colour, class sizes, columns that determine one another, classes in two splits."""

from __future__ import annotations

from itertools import permutations
from typing import ClassVar

import numpy as np
import polars as pl

from handful.audits.context import Context
from handful.audits.drawing import across, counts, short
from handful.audits.duplicates import at_least_nothing, scan_of, wilson
from handful.audits.finding import Diagnosis, Finding, Light, above
from handful.data.collection import SPLITS, Collection
from handful.data.splits import SplitRule, class_overlaps
from handful.data.store import skipped_files
from handful.metrics.base import NORMAL, TAILS, Estimate
from handful.metrics.zero_shot import over_classes

FULL = 0.999
WHOLE = "nothing: all of it was counted"


class Unreadable(Diagnosis):
    """Files that packing could not read, and images that show nothing: one colour throughout, as failed crops are."""

    name: ClassVar[str] = "unreadable"
    question: ClassVar[str] = "Are there images that show nothing?"
    topic: ClassVar[str] = "clean"
    cost: ClassVar[float] = 0.2

    def missing(self, collection: Collection) -> str:
        return "" if collection.card.kind == "images" else "the collection holds features, not images"

    def run(self, context: Context) -> list[Finding]:
        seen = scan_of(context)
        bad = seen.rows[seen.constant]
        skipped = skipped_files(context.collection)
        files = len(seen.rows) + len(skipped)
        share, low, high = wilson(len(bad) + len(skipped), files)
        part = context.collection.whole
        sizes = np.maximum(np.bincount(part.classes[seen.rows], minlength=part.n_classes), 1)
        by_class = np.bincount(part.classes[bad], minlength=part.n_classes) / sizes
        plain = f"{len(bad):,} of {len(seen.rows):,} images are one colour throughout"
        if len(bad):
            plain += f", first image {bad[0]} ({part.class_names[part.classes[bad[0]]]})"
        lost = f"{len(skipped):,} file{'s' * (len(skipped) != 1)} could not be read"
        if skipped:
            lost += f", first {skipped[0][0]} {skipped[0][1]}"
        # The cause comes first: headlines quote a finding up to its first semicolon.
        sentence = "; ".join([lost, plain] if len(skipped) > len(bad) else [plain, lost] if skipped else [plain])
        bars = {"unreadable or of one colour": Estimate(share, low, high, "images", files)}
        return [
            Finding(
                self.name, sentence, share, low, high, "new images of the same classes", "red from 1%, amber from 0.1%",
                above(share, 0.001, 0.01), across(bars, label="% of images", marks={"red": 0.01}),
                {"images": bad[:50].tolist(), "scanned": len(seen.rows), "unread": [list(s) for s in skipped[:50]]}, over_classes=at_least_nothing(over_classes(by_class)),
                alt=f"One bar: {share:.2%} of the images are unreadable or one colour throughout.",
            )
        ]  # fmt: skip


class Imbalance(Diagnosis):
    """Images per class."""

    name: ClassVar[str] = "imbalance"
    question: ClassVar[str] = "Are some classes much larger than others?"
    topic: ClassVar[str] = "clean"
    cost: ClassVar[float] = 0.1

    def run(self, context: Context) -> list[Finding]:
        part = context.whole_part
        sizes = part.members.sizes
        low, high = np.percentile(sizes, [5, 95])
        value = float(high / max(low, 1))
        small, large = part.class_names[int(sizes.argmin())], part.class_names[int(sizes.argmax())]
        sentence = (
            f"classes have {sizes.min():,} ({short(small)}) to {sizes.max():,} ({short(large)}) images, {int(np.median(sizes)):,} in the "
            f"middle; the 95th percentile is {value:.1f} times the 5th"
        )
        if sizes.min() == sizes.max():
            sentence = f"all {len(sizes):,} classes have {sizes[0]:,} images"
        a, b = bootstrap_ratio(sizes, context.seed)
        return [
            Finding(
                self.name, sentence, value, a, b, "new classes", "95th over 5th percentile: red from 10, amber from 3",
                above(value, 3, 10), counts(sizes, "images per class"),
                {"fewest": int(sizes.min()), "median": float(np.median(sizes)), "most": int(sizes.max()), "classes": len(sizes)},
                alt=f"Histogram of images per class, from {sizes.min():,} to {sizes.max():,}.",
            )
        ]  # fmt: skip


def bootstrap_ratio(sizes: np.ndarray, seed: int, draws: int = 1000) -> tuple[float, float]:
    rng = np.random.default_rng([seed, 0x1BA1])
    drawn = sizes[rng.integers(0, len(sizes), (draws, len(sizes)))]
    low, high = np.percentile(drawn, [5, 95], axis=1)
    a, b = np.quantile(high / np.maximum(low, 1), TAILS)
    return float(a), float(b)


class Columns(Diagnosis):
    """How much of each column the class tells: a context that the class determines cannot be told from it."""

    name: ClassVar[str] = "columns"
    question: ClassVar[str] = "Do label columns determine one another?"
    topic: ClassVar[str] = "clean"
    cost: ClassVar[float] = 0.1

    def missing(self, collection: Collection) -> str:
        alone = not factors(collection) and len(collection.card.labels) < 2
        return "there is no column beside the class and the splits" if alone else ""

    def run(self, context: Context) -> list[Finding]:
        collection = context.collection
        card, part = collection.card, context.whole_part
        frame = pl.DataFrame({"class": pl.Series(part.class_names).gather(part.classes)})
        others = [*factors(collection), *(card.labels if len(card.labels) > 1 else ())]
        frame = frame.with_columns(collection.table[c][part.rows].cast(pl.String).fill_null("") for c in others)
        told = {c: determined(frame, "class", c) for c in factors(collection)}
        tells = {c: determined(frame, c, "class") for c in factors(collection)}
        labels = {(a, b): determined(frame, a, b) for a, b in permutations(card.labels, 2)}
        full = [c for c, v in told.items() if v >= FULL]
        twins = [c for c in full if tells[c] >= FULL]
        tied = [f"the label column {a!r} determines {b!r}" for (a, b), v in labels.items() if v >= FULL]
        bars = {**told, **{f"{b}, by {a}": v for (a, b), v in labels.items()}}
        context_told = told.get(card.context or "", 0.0)
        main = card.context if card.context in told else max(bars, key=lambda c: bars[c])
        pieces = []
        if card.context in told:
            pieces.append(f"the class determines {context_told:.0%} of the context {card.context!r}")
        if twins:
            pieces.append(f"{', '.join(map(repr, twins))} and the class determine one another")
        if nests := [c for c in full if c not in twins]:
            pieces.append(f"the class determines {', '.join(map(repr, nests))}")
        sentence = (
            "; ".join([*pieces, *tied])
            or f"no column determines another; nearest to it is {main!r} ({bars[str(main)]:.0%})"
        )
        light: Light = "red" if context_told >= 0.9 else "amber" if twins or tied or context_told >= 0.5 else "green"
        ends = {**{c: ("class", c) for c in told}, **{f"{b}, by {a}": (a, b) for a, b in labels}}
        low, high = over_resampled(frame, *ends[str(main)], context.seed)
        return [
            Finding(
                self.name, sentence, bars[str(main)], low, high, "new images of the same classes",
                "share of the context that the class determines: red from 90%, amber from 50%, or where a column is the class under another name or "
                "one label column determines another",
                light,
                across(dict(sorted(bars.items(), key=lambda i: -i[1])[:12]), label="% of a column that the class (or another) determines"),
                {"told_by_class": told, "tell_class": tells, "determined": full, "twins": twins, "tied_labels": tied},
                alt="Bars: the share of each column that the class determines: " + ", ".join(f"{c} {v:.0%}" for c, v in bars.items()) + ".",
            )
        ]  # fmt: skip


def factors(collection: Collection) -> list[str]:
    """Columns beside the class's own, splits and files that have two values or more."""
    card, table = collection.card, collection.table
    skip = {*card.schemes, "file", "source_file", *card.labels}
    return [c for c in table.columns if c not in skip and table[c].n_unique() > 1]


def determined(frame: pl.DataFrame, by: str, column: str) -> float:
    """The uncertainty coefficient: the share of ``column``'s entropy that ``by`` removes, corrected for chance by counts.

    Miller and Madow's correction adds (values - 1) / 2n to each entropy, so that many classes of few images do not seem to
    tell what they merely split up.
    """
    total = entropy(frame[column])
    if total <= 0:
        return 1.0
    joint = frame.select(pl.concat_str([pl.col(by).cast(pl.String), pl.col(column)], separator="\x1f").alias("both"))[
        "both"
    ]
    if joint.n_unique() == frame[by].n_unique():
        return 1.0
    return float(np.clip((total + entropy(frame[by]) - entropy(joint)) / total, 0.0, 1.0))


def entropy(values: pl.Series) -> float:
    n = values.value_counts()["count"].to_numpy() / len(values)
    return float(-(n * np.log(n)).sum() + (len(n) - 1) / (2 * len(values)))


def over_resampled(frame: pl.DataFrame, by: str, column: str, seed: int, draws: int = 60) -> tuple[float, float]:
    """Spread of the coefficient over halves of the images, scaled to all of them."""
    rng = np.random.default_rng([seed, 0xC01])
    whole = determined(frame, by, column)
    some = frame.select(by, column)
    found = [
        determined(some[np.sort(rng.permutation(len(some))[: max(2, len(some) // 2)])], by, column)
        for _ in range(draws)
    ]
    half = NORMAL * float(np.std(found))
    return max(0.0, whole - half), min(1.0, whole + half)


class Overlap(Diagnosis):
    """Classes in more than one of train, valid and test, under every split scheme."""

    name: ClassVar[str] = "overlap"
    question: ClassVar[str] = "Are test classes seen in training?"
    topic: ClassVar[str] = "clean"
    cost: ClassVar[float] = 0.1

    def missing(self, collection: Collection) -> str:
        return "" if collection.card.schemes else "the collection has no splits"

    def run(self, context: Context) -> list[Finding]:
        collection = context.collection
        card, table = collection.card, collection.table
        names_of = SplitRule().groups(card, table).fill_null("(none)")
        total = names_of.n_unique()
        shared = {s: class_overlaps(names_of, table[s])["class"].to_list() for s in card.schemes}
        scheme = collection.card.schemes[0]
        held = {s: collection.part(s).n_classes for s in SPLITS if collection.has(s)}
        drawn = {**held, "in more than one split": len(shared[scheme])}
        value = len(shared[scheme]) / total
        pieces = [
            f"{len(names):,} of {total:,} classes are in more than one split of {s!r}"
            + (f" (first {short(names[0])})" if names else "")
            for s, names in shared.items()
        ]
        return [
            Finding(
                self.name, "; ".join(pieces), value, value, value, WHOLE,
                "green at 0, amber above: a score then measures images of known classes, which is another question",
                "amber" if value else "green", across(drawn, label="classes", scale=1),
                {s: names[:50] for s, names in shared.items()},
alt="Bars of classes: " + ", ".join(f"{k} {n:,}" for k, n in drawn.items()) + f", scheme {scheme}.",
            )
        ]  # fmt: skip
