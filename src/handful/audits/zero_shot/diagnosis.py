"""The zero-shot question in `handful audit`: can test classes be guessed from their nearest training class?"""

from __future__ import annotations

import itertools
from typing import ClassVar

import polars as pl

from handful.audits.context import Context
from handful.audits.drawing import counts
from handful.audits.finding import Diagnosis, Finding, Light, below
from handful.audits.zero_shot.split_audit import audit_split
from handful.data.class_splits import ClassSplit
from handful.data.collection import Collection
from handful.data.taxonomy import Taxonomy
from handful.data.taxonomy_csv import from_csv
from handful.data.wordnet import wordnet
from handful.errors import HandfulError, Infeasible, Missing
from handful.metrics.zero_shot import over_classes

ROOT = "*"


class StructuralBias(Diagnosis):
    """Structural ratio, trivial solution, relatives and polysemy of the train/test split in a hierarchy of its classes.

    The hierarchy is WordNet where the classes are its ids, the packed folder's ``taxonomy.csv`` where there is one, and
    otherwise the columns that classes determine (super-category, alphabet, script), coarsest on top.
    """

    name: ClassVar[str] = "structural-bias"
    question: ClassVar[str] = "Can a test class be guessed from its nearest training class?"
    topic: ClassVar[str] = "composition"
    cost: ClassVar[float] = 0.3

    def missing(self, collection: Collection) -> str:
        if not (collection.has("train") and collection.has("test")):
            return "it has no train and test split"
        train, test = set(collection.train.class_names), set(collection.test.class_names)
        if train & test or len(test) < 2:
            return "its test classes are not apart from its training classes"
        try:
            hierarchy(collection)
        except HandfulError as error:
            return str(error)
        return ""

    def run(self, context: Context) -> list[Finding]:
        collection = context.collection
        tree = hierarchy(collection)
        train, test = collection.train.class_names, collection.test.class_names
        found = audit_split(tree, ClassSplit(collection.card.name, tuple(train), tuple(test)))
        spread = over_classes(found.ratio.per_class)
        light: Light = "grey" if not found.kin.consistent else below(spread.value, 2.0, 1.0)
        words = (
            f"; {found.shared.labels:.0%} of the test classes' names are shared with another concept"
            if found.shared
            else ""
        )
        sentence = (
            f"the structural ratio is {spread.value:.2f} in {tree.source}; naming images after their nearest training class "
            f"could reach {found.trivial:.0%}, and {found.kin.in_test.mean():.0%} of the test classes have a relative in the test "
            f"set{words}"
        )
        ratios = found.ratio.per_class
        return [
            Finding(
                diagnosis=self.name,
                sentence=sentence,
                value=spread.value,
                low=spread.low,
                high=spread.high,
                over="new classes",
                threshold="red below 1, where test classes are nearer to train than to one another; green from 2, if consistent",
                light=light,
                figure=counts(ratios, "structural ratio r(c) of a test class"),
                details={k: v for k, v in found.as_dict().items() if not isinstance(v, dict)},
                alt=f"Histogram of the structural ratio of {len(ratios)} test classes, from {ratios.min():.2f} to {ratios.max():.2f}.",
            )
        ]


def hierarchy(collection: Collection) -> Taxonomy:
    """The hierarchy of a collection's classes, or why there is none."""
    names = collection.whole.class_names
    if all(len(n) == 9 and n[0] == "n" and n[1:].isdigit() for n in names):
        return wordnet()
    if collection.path is not None and (collection.path / "taxonomy.csv").is_file():
        tree = from_csv(collection.path / "taxonomy.csv")
        lost = [n for n in names if n not in tree]
        if lost:
            raise Infeasible(f"{len(lost)} classes are not in its taxonomy.csv (first {lost[0]})")
        return tree
    return column_tree(collection)


def column_tree(collection: Collection) -> Taxonomy:
    """Classes below the columns that they determine: a value of each such column above them, the coarsest on top."""
    card, part = collection.card, collection.whole
    frame = pl.DataFrame({"class": pl.Series(part.class_names).gather(part.classes)})
    own = card.labels[1:] or card.labels
    skip = {*card.schemes, *own, "file", "source_file", *([card.context] if card.context else [])}
    others = [c for c in collection.table.columns if c not in skip]
    frame = frame.with_columns(collection.table[c].cast(pl.String).fill_null("") for c in others)
    n = part.n_classes
    sizes = {c: frame[c].n_unique() for c in others}
    above = [
        c
        for c in sorted(others, key=lambda c: -sizes[c])
        if 1 < sizes[c] < n and frame.select("class", c).unique().height == n
    ]
    chain: list[str] = []
    for column in above:
        below = frame.select(chain[-1], column).unique().height == sizes[chain[-1]] if chain else True
        if below:
            chain.append(column)
    if not chain:
        raise Missing("its classes are not WordNet ids, and no other column groups them into a hierarchy")
    edges: set[tuple[str, str]] = set()
    levels = [frame["class"], *(frame.select(pl.lit(f"{c}: ") + pl.col(c)).to_series() for c in chain)]
    for low, high in itertools.pairwise(levels):
        edges |= set(zip(low.to_list(), high.to_list(), strict=True))
    edges |= {(top, ROOT) for top in levels[-1].unique().to_list()}
    return Taxonomy.of(sorted(edges), source=f"the column{'s' * (len(chain) > 1)} {', '.join(chain)}")
