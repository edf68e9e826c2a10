"""`handful audit --only structural-bias` of class lists, where there are no images yet."""

from __future__ import annotations

from pathlib import Path

from handful.cli.options import emit
from handful.cli.zero_shot.options import check_target, frequency_of, tree_of
from handful.errors import BadInput


def class_lists(
    train: Path,
    test: Path,
    taxonomy: str,
    words: Path | None,
    counts: Path | None,
    rare: float | None,
    frequency: bool,
    among: Path | None,
    population: Path | None,
    predictions: list[str] | None,
    out: Path | None,
    json: bool,
) -> None:
    """How much of a zero-shot score on this split is the split's doing?"""
    from handful.audits.zero_shot.page import save_page
    from handful.audits.zero_shot.semantic import read_counts
    from handful.audits.zero_shot.split_audit import audit_split, read_predictions
    from handful.data.class_splits import read_classes, read_split
    from handful.data.words import WordVectors

    check_target(out, "the page")
    if out is not None and out.suffix not in (".html", ".htm"):
        raise BadInput(f"{out}: an audit of class lists is saved as .html; name the file so, or print it with --json")
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
    if out is not None:
        save_page(found, out)
    emit(found.as_dict()) if json else print(found)
