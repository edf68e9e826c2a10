"""Is the table sound? Images of one colour, class sizes, columns that determine one another, classes in two splits."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import polars as pl

from handful.audits.context import Context
from handful.audits.drawing import across, counts, short
from handful.audits.duplicates import scan_of, wilson
from handful.audits.finding import Diagnosis, Finding, above
from handful.data.collection import Collection
from handful.data.splits import SplitRule, class_overlaps
from handful.metrics.base import Estimate
from handful.metrics.zero_shot import over_classes

WHOLE = "nothing: all of it was counted"


class Unreadable(Diagnosis):
    """Images that show nothing: one colour throughout, as broken downloads and failed crops are."""

    name: ClassVar[str] = "unreadable"
    question: ClassVar[str] = "Are there images that show nothing?"
    topic: ClassVar[str] = "clean"
    cost: ClassVar[float] = 0.2

    def missing(self, collection: Collection) -> str:
        return "" if collection.card.kind == "images" else "the collection holds features, not images"

    def look(self, context: Context) -> list[Finding]:
        seen = scan_of(context)
        bad = seen.rows[seen.constant]
        share, low, high = wilson(len(bad), len(seen.rows))
        part = context.collection.whole
        sizes = np.maximum(np.bincount(part.classes[seen.rows], minlength=part.n_classes), 1)
        by_class = np.bincount(part.classes[bad], minlength=part.n_classes) / sizes
        sentence = f"{len(bad):,} of {len(seen.rows):,} images are one colour throughout"
        if len(bad):
            sentence += f", first image {bad[0]} ({part.class_names[part.classes[bad[0]]]})"
        bars = {"one colour throughout": Estimate(share, low, high, "images", len(seen.rows))}
        return [
            Finding(
                self.name, sentence, share, low, high, "new images of the same classes", "red from 1%, amber from 0.1%",
                above(share, 0.001, 0.01), across(bars, label="% of images"),
                {"images": bad[:50].tolist(), "scanned": len(seen.rows)}, wide=over_classes(by_class),
                alt=f"One bar: {share:.2%} of the images are one colour throughout.",
            )
        ]  # fmt: skip


class Imbalance(Diagnosis):
    """Images a class."""

    name: ClassVar[str] = "imbalance"
    question: ClassVar[str] = "Are some classes much larger than others?"
    topic: ClassVar[str] = "clean"
    cost: ClassVar[float] = 0.1

    def look(self, context: Context) -> list[Finding]:
        part = context.whole_part
        sizes = part.members.sizes
        low, high = np.percentile(sizes, [5, 95])
        value = float(high / max(low, 1))
        small, large = part.class_names[int(sizes.argmin())], part.class_names[int(sizes.argmax())]
        sentence = (
            f"classes have {sizes.min():,} ({short(small)}) to {sizes.max():,} ({short(large)}) images, {int(np.median(sizes)):,} in the "
            f"middle; the 95th percentile is {value:.1f} times the 5th"
        )
        a, b = bootstrap_ratio(sizes, context.seed)
        return [
            Finding(
                self.name, sentence, value, a, b, "new classes", "95th over 5th percentile: red from 10, amber from 3",
                above(value, 3, 10), counts(sizes, "images a class"),
                {"fewest": int(sizes.min()), "median": float(np.median(sizes)), "most": int(sizes.max()), "classes": len(sizes)},
                alt=f"Histogram of images a class, from {sizes.min():,} to {sizes.max():,}.",
            )
        ]  # fmt: skip


def bootstrap_ratio(sizes: np.ndarray, seed: int, draws: int = 1000) -> tuple[float, float]:
    rng = np.random.default_rng([seed, 0x1BA1])
    drawn = sizes[rng.integers(0, len(sizes), (draws, len(sizes)))]
    low, high = np.percentile(drawn, [5, 95], axis=1)
    a, b = np.percentile(high / np.maximum(low, 1), [2.5, 97.5])
    return float(a), float(b)


class Columns(Diagnosis):
    """How much of each column the class tells: a context that the class determines cannot be told from it."""

    name: ClassVar[str] = "columns"
    question: ClassVar[str] = "Do label columns determine one another?"
    topic: ClassVar[str] = "clean"
    cost: ClassVar[float] = 0.1

    def missing(self, collection: Collection) -> str:
        return "" if factors(collection) else "there is no column beside the class and the splits"

    def look(self, context: Context) -> list[Finding]:
        collection = context.collection
        card, part = collection.card, context.whole_part
        frame = pl.DataFrame({"class": pl.Series(part.class_names).gather(part.classes)})
        frame = frame.with_columns(
            collection.table[c][part.rows].cast(pl.String).fill_null("") for c in factors(collection)
        )
        told = {c: determined(frame, "class", c) for c in factors(collection)}
        tells = {c: determined(frame, c, "class") for c in factors(collection)}
        full = [c for c, v in told.items() if v >= 0.999]
        twins = [c for c in full if tells[c] >= 0.999]
        context_told = told.get(card.context or "", 0.0)
        main = card.context if card.context in told else max(told, key=lambda c: told[c])
        pieces = []
        if card.context in told:
            pieces.append(
                f"the class tells {context_told:.0%} of what there is to know of the context {card.context!r}"
            )
        if twins:
            pieces.append(f"{', '.join(map(repr, twins))} and the class determine one another")
        if nests := [c for c in full if c not in twins]:
            pieces.append(f"the class determines {', '.join(map(repr, nests))}")
        sentence = "; ".join(pieces) or f"no column is determined by the class; most of {main!r} ({told[main]:.0%})"
        light = "red" if context_told >= 0.9 else "amber" if twins or context_told >= 0.5 else "green"
        low, high = over_resampled(frame, str(main), context.seed)
        return [
            Finding(
                self.name, sentence, told[str(main)], low, high, "new images of the same classes",
                "context told by the class: red from 90%, amber from 50% or where a column is the class under another name",
                light,  # type: ignore[arg-type]
                across(dict(sorted(told.items(), key=lambda i: -i[1])[:12]), label="% of a column that the class tells"),
                {"told_by_class": told, "tell_class": tells, "determined": full, "twins": twins},
                alt="Bars: the class tells " + ", ".join(f"{v:.0%} of {c}" for c, v in told.items()) + ".",
            )
        ]  # fmt: skip


def factors(collection: Collection) -> list[str]:
    """Columns beside splits and files that have two values or more, and the class's own only where it has several."""
    card, table = collection.card, collection.table
    skip = {*card.schemes, "file", "source_file", *(card.labels if len(card.labels) == 1 else ())}
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


def over_resampled(frame: pl.DataFrame, column: str, seed: int, draws: int = 60) -> tuple[float, float]:
    """Spread of the coefficient over halves of the images, scaled to all of them."""
    rng = np.random.default_rng([seed, 0xC01])
    whole = determined(frame, "class", column)
    some = frame.select("class", column)
    found = [
        determined(some[np.sort(rng.permutation(len(some))[: max(2, len(some) // 2)])], "class", column)
        for _ in range(draws)
    ]
    half = 1.96 * float(np.std(found))
    return max(0.0, whole - half), min(1.0, whole + half)


class Overlap(Diagnosis):
    """Classes in more than one of train, valid and test, under every split scheme."""

    name: ClassVar[str] = "overlap"
    question: ClassVar[str] = "Are test classes seen in training?"
    topic: ClassVar[str] = "clean"
    cost: ClassVar[float] = 0.1

    def missing(self, collection: Collection) -> str:
        return "" if collection.card.schemes else "the collection has no splits"

    def look(self, context: Context) -> list[Finding]:
        collection = context.collection
        card, table = collection.card, collection.table
        names_of = SplitRule().groups(card, table).fill_null("(none)")
        total = names_of.n_unique()
        shared = {s: class_overlaps(names_of, table[s])["class"].to_list() for s in card.schemes}
        scheme = collection.card.schemes[0]
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
                "amber" if value else "green", across({s: len(n) / total for s, n in shared.items()}, label="% of classes"),
                {s: names[:50] for s, names in shared.items()},
                alt="Bars: " + ", ".join(f"{len(n) / total:.0%} of the classes under {s}" for s, n in shared.items()) + ".",
            )
        ]  # fmt: skip
