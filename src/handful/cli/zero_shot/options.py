"""Options that the zero-shot verbs share, and how their plain values become things."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

LISTS = "Class lists and words"

Train = Annotated[Path, typer.Option("--train", help="Training classes, one id per line.", rich_help_panel=LISTS)]
TrainList = Annotated[
    Path | None, typer.Option("--train", help="Training classes, one id per line.", rich_help_panel=LISTS)
]
TestList = Annotated[Path | None, typer.Option("--test", help="Test classes, one id per line.", rich_help_panel=LISTS)]
Tree = Annotated[
    str,
    typer.Option(
        "--taxonomy",
        help="wordnet, a data.noun file or its folder, or a CSV of child,parent.",
        rich_help_panel=LISTS,
    ),
]
Words = Annotated[
    Path | None,
    typer.Option("--words", help="Word vectors: GloVe .txt(.gz) or word2vec .bin.", rich_help_panel=LISTS),
]
Counts = Annotated[
    Path | None,
    typer.Option("--counts", help="Word counts, rows word,count, instead of wordfreq.", rich_help_panel=LISTS),
]
Rare = Annotated[
    float | None,
    typer.Option("--rare", help="Least frequency: 500 for counts, Zipf 2.7 for wordfreq.", rich_help_panel=LISTS),
]
Common = Annotated[bool, typer.Option("--frequency", help="Look labels up in wordfreq.", rich_help_panel=LISTS)]
Among = Annotated[
    Path | None,
    typer.Option(
        "--among",
        help="Classes whose words compete for a meaning (training classes if none are given).",
        rich_help_panel=LISTS,
    ),
]
Population = Annotated[
    Path | None,
    typer.Option("--population", help="Number of images of each class, rows class,count.", rich_help_panel=LISTS),
]
Predictions = Annotated[
    list[str] | None,
    typer.Option(
        "--predictions",
        help="NAME=FILE or FILE with rows truth,predicted; may be repeated (zsl, gzsl).",
        rich_help_panel=LISTS,
    ),
]
Page = Annotated[Path | None, typer.Option("--page", help="Write a page with figures here.")]
Semantic = Annotated[
    str | None,
    typer.Option(
        "--semantics",
        help="wordnet:VECTORS, glosses:VECTORS, sentences[:ENCODER][@TEXTS.csv], FILE[+TREE.csv|+wordnet], stored (default if there is any), factors.",
    ),
]


def tree_of(spec: str) -> Any:
    """The hierarchy that ``--taxonomy`` names."""
    from handful.data.taxonomy_csv import from_csv
    from handful.data.wordnet import wordnet

    if spec == "wordnet":
        return wordnet()
    return from_csv(spec) if spec.endswith(".csv") else wordnet(spec)


def frequency_of(counts: Path | None, rare: float | None, wanted: bool) -> Any:
    """Word counts of a file, or wordfreq where it is asked for."""
    from handful.audits.zero_shot.semantic import Frequency

    if counts is not None:
        return Frequency.read(counts, 500.0 if rare is None else rare)
    return Frequency.wordfreq(2.7 if rare is None else rare) if wanted or rare is not None else None


def check_target(path: Path | None, what: str) -> None:
    """Refuse a file that could not be written before the work, not after it."""
    from handful.errors import BadInput

    if path is None:
        return
    if path.is_dir():
        raise BadInput(f"{path} is a folder; name a file for {what}")
    if path.parent.exists() and not path.parent.is_dir():
        raise BadInput(f"{path.parent} is a file; name another place for {what}")
