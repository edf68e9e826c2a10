"""handful audit"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli.groups import Computing, spread
from handful.cli.options import OUTPUT, SEEING, TASKS, Json, Seed, emit, usable_folder
from handful.cli.zero_shot.options import (
    Among,
    Common,
    Counts,
    Population,
    Predictions,
    Rare,
    TestList,
    TrainList,
    Tree,
    Words,
)
from handful.errors import BadInput, nearest

app = typer.Typer(add_completion=False)

PAGES = (".html", ".htm", ".json", ".csv")
CONTEXTS = "Contexts and concepts (context-probe, image-text)"


@app.command()
@spread
def audit(
    collections: Annotated[
        list[str] | None,
        typer.Argument(metavar="COLLECTION...", help="Packed folders, world:..., or folders or zips of images."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            help="Ask only this diagnosis (handful ls diagnoses); may be repeated.",
            rich_help_panel="What is asked",
        ),
    ] = None,
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.0, help="Minutes for each collection.", rich_help_panel="What is asked")
    ] = 5.0,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="Split the score of this method (score-split): a name, or a model folder.",
            rich_help_panel="What is asked",
        ),
    ] = "",
    planned: Annotated[
        int,
        typer.Option(
            "--planned",
            help="Number of tasks that your study will have; power says what they can show.",
            rich_help_panel="What is asked",
        ),
    ] = 600,
    seed: Seed = 0,
    split: Annotated[
        str,
        typer.Option(
            "--split",
            help="Split to audit, or all; test by default (all, below five test classes).",
            rich_help_panel=TASKS,
        ),
    ] = "",
    rule: Annotated[
        str,
        typer.Option(
            "--rule", help="Rule that tasks are drawn by (handful ls rules); n-way by default.", rich_help_panel=TASKS
        ),
    ] = "",
    net: Annotated[
        str,
        typer.Option(
            "--net",
            help="Backbone of the frozen features; lite0 if it is installed, else pixels.",
            rich_help_panel=SEEING,
        ),
    ] = "",
    features: Annotated[
        Path | None,
        typer.Option(
            "--features",
            help="Features of every image instead of a net: .npy, .npz or .h5.",
            rich_help_panel=SEEING,
        ),
    ] = None,
    clip: Annotated[
        str,
        typer.Option(
            "--clip",
            help="For image-text: a CLIP checkpoint (folder or hub name), or lite2+minilm.",
            rich_help_panel=CONTEXTS,
        ),
    ] = "",
    template: Annotated[
        str, typer.Option("--template", help="Prompts: bare, photo, scene or style.", rich_help_panel=CONTEXTS)
    ] = "photo",
    column: Annotated[
        str,
        typer.Option("--column", help="Column of contexts; the collection's own by default.", rich_help_panel=CONTEXTS),
    ] = "",
    folds: Annotated[
        int, typer.Option("--folds", min=2, help="Folds of the probes' cross-validation.", rich_help_panel=CONTEXTS)
    ] = 5,
    most: Annotated[
        int,
        typer.Option(
            "--most", min=0, help="Number of images to probe; 0 for what the time allows.", rich_help_panel=CONTEXTS
        ),
    ] = 0,
    reported: Annotated[
        bool,
        typer.Option("--reported", help="Rank beside the paper's own similarities.", rich_help_panel=CONTEXTS),
    ] = False,
    encoder_seen: Annotated[
        str,
        typer.Option(
            "--encoder-seen",
            help="What the encoder was trained on: imagenet, or a file with one class in each line (encoder-seen).",
            rich_help_panel=SEEING,
        ),
    ] = "",
    seen_images: Annotated[
        str,
        typer.Option(
            "--seen-images",
            help="Images that the encoder was trained on, to look for near copies of (encoder-seen).",
            rich_help_panel=SEEING,
        ),
    ] = "",
    control: Annotated[
        str,
        typer.Option(
            "--control",
            help="A net that has seen none of the classes; by default one is trained on the train split (encoder-seen).",
            rich_help_panel=SEEING,
        ),
    ] = "",
    train: TrainList = None,
    test: TestList = None,
    taxonomy: Tree = "wordnet",
    words: Words = None,
    counts: Counts = None,
    rare: Rare = None,
    frequency: Common = False,
    among: Among = None,
    population: Population = None,
    predictions: Predictions = None,
    computing: Computing = Computing(),
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Page to write (.html; .json and .csv hold the same facts), or a folder for several collections' pages "
            "or image-text's drawings.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Ask what a benchmark's score will really mean: every diagnosis that the collection allows, in the given minutes.

    Examples:

    handful audit world --minutes 2 --out world.html

    handful audit packed/photos --only duplicates --only power --planned 1000

    handful audit packed/pacs packed/mine --only image-text --clip lite2+minilm --out similarity

    handful audit packed/pacs --only context-probe --net lite0

    handful audit packed/cifar-fs --only encoder-seen --encoder-seen imagenet --minutes 3

    handful audit --only structural-bias --train train.txt --test 1-hop.txt --out 1-hop.html
    """
    from handful import registry
    from handful.audits.audit import audit as run_audit
    from handful.audits.seen_classes import seen_list
    from handful.data.opening import open_collection

    for name in only or []:
        registry.get("diagnoses", name)
    places, page = collections or [], out is not None and out.suffix in PAGES
    if out is not None and out.suffix and not page:
        raise BadInput(f"{out}: an audit is saved as .html, .json or .csv, or in a folder; name the file so")
    if train is not None or test is not None:
        from handful.cli.audit_lists import class_lists

        if places or train is None or test is None or (only or ["structural-bias"]) != ["structural-bias"]:
            raise BadInput(
                "class lists are audited by --only structural-bias with --train and --test, and no collection"
            )
        class_lists(train, test, taxonomy, words, counts, rare, frequency, among, population, predictions, out, json)
        return
    if not places:
        raise BadInput("name a collection to audit, or class lists with --only structural-bias --train A --test B")
    lists: dict[str, object] = {
        "--words": words,
        "--counts": counts,
        "--rare": rare,
        "--among": among,
        "--population": population,
    }
    lists |= {"--predictions": predictions, "--taxonomy": taxonomy if taxonomy != "wordnet" else None}
    if given := [name for name, value in lists.items() if value is not None]:
        raise BadInput(f"{given[0]} goes with class lists, --train A --test B, and has no part in the audit of images")
    if (seen_images or control) and not encoder_seen:
        raise BadInput("--seen-images and --control go with --encoder-seen imagenet (or a file of classes)")
    if encoder_seen:
        seen_list(encoder_seen)  # a wrong name is refused before anything is opened
    compute = computing.compute()
    if only == ["image-text"] and clip and not page:
        from handful.cli.audit_similarity import image_text

        image_text(places, clip, template, column, split or "all", reported, out, compute, json)
        return
    if not page and out is not None:
        usable_folder(out)
    if page and len(places) > 1:
        raise BadInput(f"{out} is one page; name a folder for the pages of {len(places)} collections")
    options: dict[str, dict[str, Any]] = {
        "context-probe": {"column": column, "folds": folds, "most": most},
        "image-text": {"clip": clip, "template": template, "column": column},
        "encoder-seen": {"seen": encoder_seen, "images": seen_images, "control": control},
    }
    done: list[Any] = []
    for place in places:
        opened = open_collection(place, skip_bad=True)
        if column and column not in opened.table.columns:
            raise BadInput(f"{place} has no column {column!r}; {nearest(column, opened.table.columns)}")
        result = run_audit(
            opened,
            only=only,
            net=net,
            features=features,
            seed=seed,
            minutes=minutes,
            planned=planned,
            split=split,
            rule=rule,
            method=method,
            compute=compute,
            options=options,
        )
        if out is not None:
            result.save(out if page else out / f"{len(done) + 1}-{result.collection.card.name}.html")
        done.append(result)
        if not json:
            print(result)
    if json:
        emit(done[0].as_dict() if len(done) == 1 else {"audits": [one.as_dict() for one in done]})
