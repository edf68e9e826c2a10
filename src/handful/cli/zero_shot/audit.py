"""handful zero-shot audit"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.options import Json, emit
from handful.cli.zero_shot.options import (
    Among,
    Common,
    Counts,
    Page,
    Population,
    Rare,
    Train,
    Tree,
    Words,
    check_target,
    frequency_of,
    tree_of,
)


def audit(
    train: Train,
    test: Annotated[Path, typer.Option("--test", help="Test classes, one id a line.")],
    taxonomy: Tree = "wordnet",
    words: Words = None,
    counts: Counts = None,
    rare: Rare = None,
    frequency: Common = False,
    among: Among = None,
    population: Population = None,
    predictions: Annotated[
        list[str] | None,
        typer.Option("--predictions", help="NAME=FILE or FILE with rows truth,predicted; may be repeated (zsl, gzsl)."),
    ] = None,
    page: Page = None,
    json: Json = False,
) -> None:
    """How much of a score on this split is the split's doing?

    Example: handful zero-shot audit --train train.txt --test 1-hop.txt --json
    """
    from handful.audits.zero_shot.page import save_page
    from handful.audits.zero_shot.semantic import read_counts
    from handful.audits.zero_shot.split_audit import audit_split, read_predictions
    from handful.data.class_splits import read_classes, read_split
    from handful.data.words import WordVectors

    check_target(page, "the page")
    tree = tree_of(taxonomy)
    split = read_split(train, test, tree)
    answers = {}
    for item in predictions or []:
        name, equals, file = item.partition("=")
        answers[name if equals else Path(name).stem] = read_predictions(file if equals else name)
    found = audit_split(
        tree,
        split,
        vectors=WordVectors.open(words) if words else None,
        frequency=frequency_of(counts, rare, frequency),
        among=read_classes(among) if among else None,
        population=read_counts(population) if population else None,
        predictions=answers,
    )
    if page is not None:
        save_page(found, page)
    emit(found.as_dict()) if json else print(found)
