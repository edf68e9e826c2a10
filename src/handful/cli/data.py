"""handful data"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli import data_export, data_get
from handful.cli.data_pairs import built_by, is_pairs, pair_facts, print_pairs
from handful.cli.options import OUTPUT, READING, WORK, As, Json, Scheme, Settings, emit, must_end, parse_settings
from handful.errors import BadInput

app = typer.Typer(no_args_is_help=True, add_completion=False)

CARD, SPLITTING = "What the card says", "Splits"

Place = Annotated[str, typer.Argument(help="Packed folder, world:..., or a folder or zip of images.")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Decoding processes; all cores by default.", rich_help_panel=WORK)
]
File = Annotated[
    Path | None,
    typer.Option("--split-file", help="JSON, CSV or folder of .txt that names the classes.", rich_help_panel=SPLITTING),
]
Fractions = Annotated[
    str | None,
    typer.Option(
        "--fractions",
        help="Train, valid, test, such as 0.64,0.16,0.2 (by fraction or by count).",
        rich_help_panel=SPLITTING,
    ),
]
SplitSeed = Annotated[int, typer.Option("--seed", help="Seed of a split by fraction.", rich_help_panel=SPLITTING)]
BUILDERS = ("rlcl-attr", "rlcl-act")
"""Importers that make one collection of several data sets: it is called after them, not after the folder."""
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        help="Columns kept together, such as alphabet or dataset; the class by default.",
        rich_help_panel=SPLITTING,
    ),
]


@app.callback()
def _data() -> None:
    """Get, pack, check, describe, split, show and export collections."""


app.command("get")(data_get.get)
app.command("verify")(data_get.verify)
app.command("export")(data_export.export)


@app.command()
def pack(
    source: Annotated[Path, typer.Argument(help="Folder or zip of images.")],
    target: Annotated[Path, typer.Argument(help="Folder for the packed collection.")],
    layout: As = "auto",
    size: Annotated[
        int | None, typer.Option("--size", help="Side of the images in pixels.", rich_help_panel=READING)
    ] = None,
    grey: Annotated[
        bool | None, typer.Option("--grey/--colour", help="One channel, or three.", rich_help_panel=READING)
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Name of the collection; the source's by default.", rich_help_panel=CARD),
    ] = None,
    version: Annotated[
        str, typer.Option("--data-version", help="Version to put on the card.", rich_help_panel=CARD)
    ] = "1",
    licence: Annotated[
        str | None, typer.Option("--licence", help="Licence to put on the card.", rich_help_panel=CARD)
    ] = None,
    citation: Annotated[
        str | None, typer.Option("--citation", help="How to cite the data, for the card.", rich_help_panel=CARD)
    ] = None,
    settings: Settings = None,
    split_by: Annotated[
        str | None,
        typer.Option(
            "--split-by", help="fraction, count, file, or primitives (pair collections).", rich_help_panel=SPLITTING
        ),
    ] = None,
    split_file: File = None,
    fractions: Fractions = None,
    seed: SplitSeed = 0,
    on: On = None,
    scheme: Annotated[
        str | None, typer.Option("--scheme", help="Name of the new split scheme.", rich_help_panel=SPLITTING)
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave unreadable files out.", rich_help_panel=READING)
    ] = False,
    workers: Workers = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a packed collection that is there.", rich_help_panel=OUTPUT)
    ] = False,
    json: Json = False,
) -> None:
    """Pack a folder or zip of images into a collection.

    Examples:

    handful data pack photos/ packed/photos --as folders --size 84 --split-by fraction --seed 0

    handful data pack raw/ packed/rlcl-attr --as rlcl-attr -s keep=test
    """
    with _whole_or_nothing(target):
        from handful.data.pack import pack as pack_images

        done = pack_images(
            source,
            target,
            layout,
            size=size,
            grey=grey,
            name=name or (layout if layout in BUILDERS else None),
            version=version,
            licence=licence,
            citation=citation,
            split=_rule(split_by, split_file, fractions, seed, on, scheme),
            skip_bad=skip_bad,
            workers=workers,
            force=force,
            options=parse_settings(settings),
        )
    pairs = pair_facts(done.collection) if built_by(done.collection) else None
    if json:
        facts = {
            **_card(done.collection),
            "skipped": [{"file": file, "reason": reason} for file, reason in done.skipped],
            "notes": done.notes,
            "seconds": round(done.seconds, 2),
        }
        emit(facts | ({"pairs": pairs} if pairs else {}))
        return
    labels = done.collection.card.labels
    classes = f"{done.collection.table.select(labels).n_unique()} classes by {' and '.join(labels)}"
    print(f"{done.collection.id}: {len(done.collection)} images in {target}, {done.seconds:.1f} s; {classes}")
    for note in done.notes:
        print(note)
    if pairs:
        print_pairs(done.collection, pairs)


@app.command()
def check(
    place: Place,
    layout: As = "auto",
    settings: Settings = None,
    workers: Workers = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 2 also if splits share images or classes.")
    ] = False,
    json: Json = False,
) -> None:
    """Look for unreadable files, exact copies and shared classes; say which tasks fit. Faults end in exit code 2.

    Examples:

    handful data check packed/photos

    handful data check photos/ --as folders --strict
    """
    from handful import registry
    from handful.data.check import check as check_place

    if layout != "auto":
        registry.get("importers", layout)

    found = check_place(place, layout, workers=workers, options=parse_settings(settings))
    failed = not found.ok or (strict and any(f.kind == "leak" for f in found.findings))
    if json:
        frames = ("unreadable", "duplicates", "overlaps", "sizes", "feasible")
        facts: dict[str, Any] = {"name": found.name, "images": found.images, "classes": found.classes, "ok": not failed}
        facts["findings"] = [{"kind": f.kind, "sentence": f.sentence} for f in found.findings]
        emit(facts | {n: getattr(found, n).to_dicts() for n in frames})
    else:
        print(found)
    if failed:
        raise typer.Exit(2)


@app.command()
def stats(
    place: Place,
    scheme: Scheme = None,
    figure: Annotated[
        Path | None, typer.Option("--figure", help="Draw concept x context counts (png, svg, pdf).")
    ] = None,
    clip: Annotated[
        str | None,
        typer.Option(
            "--clip", help="CLIP checkpoint or lite2+minilm; adds M_ce, the similarity of images and class names."
        ),
    ] = None,
    primitives: Annotated[
        int, typer.Option("--primitives", min=2, help="Pair collections: primitives on each side of a task.")
    ] = 5,
    shots: Annotated[
        int, typer.Option("--shots", min=1, help="Pair collections: support images of each seen pair.")
    ] = 5,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the tables as CSV.")] = None,
    json: Json = False,
) -> None:
    """Count images by split, class, data set and context; of a pair collection, also its pairs and their references.

    Examples:

    handful data stats packed/pacs --figure pacs.png

    handful data stats world:label=colour+glyph,mask=0.16,splits=0.5+0.25+0.25 --primitives 5 --shots 5
    """
    from handful.data.opening import open_collection
    from handful.data.stats import heat_map, save_figure
    from handful.data.stats import stats as count

    collection = open_collection(place)
    counts = count(collection, scheme)
    if clip is not None:
        from dataclasses import replace

        from polars import lit

        from handful.audits.similarity import similarity
        from handful.progress import note

        found = similarity(collection.whole, clip)
        counts = replace(counts, summary=counts.summary.with_columns(M_ce=lit(round(found.concept.value, 4))))
        if found.caution:
            note(f"M_ce by {clip}: {found.caution}")
    if figure is not None:
        save_figure(heat_map(counts), figure)
    if out is not None:
        counts.save(out)
    pairs = pair_facts(collection, primitives, shots) if is_pairs(collection) else None
    if json:
        facts = {"name": counts.name, "scheme": counts.scheme} | {n: f.to_dicts() for n, f in counts.frames.items()}
        emit(facts | ({"pairs": pairs} if pairs else {}))
        return
    for title, frame in counts.frames.items():
        print(f"\n{title}")
        _print(frame)
    if pairs:
        print("\npairs")
        print_pairs(collection, pairs)


@app.command()
def split(
    place: Annotated[Path, typer.Argument(help="Packed folder.")],
    by: Annotated[
        str,
        typer.Option("--by", help="fraction, count, file, or primitives (pairs: no primitive is in two splits)."),
    ] = "fraction",
    split_file: File = None,
    fractions: Fractions = None,
    seed: SplitSeed = 0,
    on: On = None,
    scheme: Annotated[
        str | None, typer.Option("--scheme", help="Name of the scheme; split or primitives by default.")
    ] = None,
    json: Json = False,
) -> None:
    """Add a class-disjoint split scheme to a packed collection; it becomes the default, and the collection's id changes.

    Examples:

    handful data split packed/photos --by fraction --fractions 0.6,0.2,0.2 --seed 1 --scheme mine

    handful data split packed/mit-states --by primitives --fractions 0.5,0.25,0.25
    """
    from handful.data.splits import add_scheme
    from handful.data.stats import stats as count

    rule = _rule(by, split_file, fractions, seed, on, scheme)
    assert rule is not None
    with _whole_or_nothing(place):
        collection = add_scheme(place, rule)
    counts = count(collection)
    outside = int((collection.table[collection.card.schemes[0]] == "").sum())
    if json:
        emit({**_card(collection), "by_split": counts.by_split.to_dicts(), "in_no_split": outside})
        return
    print(collection.id)
    _print(counts.by_split)
    if by == "primitives":
        print(f"{outside} of {len(collection)} images have their two primitives in different splits and are left out")
        print_pairs(collection, pair_facts(collection))


@app.command()
def show(
    place: Place,
    out: Annotated[Path, typer.Option("--out", help="PNG to write.")] = Path("sheet.png"),
    split: Annotated[str | None, typer.Option("--split", help="Only this split.")] = None,
    scheme: Scheme = None,
    classes: Annotated[int, typer.Option("--classes", min=1, help="Number of classes to show, one per line.")] = 12,
    each: Annotated[int, typer.Option("--each", min=1, help="Number of images of each class.")] = 10,
    json: Json = False,
) -> None:
    """Draw a contact sheet with labels.

    Examples:

    handful data show packed/photos --split test --out sheet.png

    handful data show world --classes 8 --each 12 --out world.png
    """
    must_end(out, "--out", ".png")
    if scheme and not split:
        raise BadInput("--scheme says which splits are meant; it goes with --split")
    from handful.data.opening import open_collection
    from handful.data.show import class_sheet
    from handful.files import write_atomically

    collection = open_collection(place)
    picture = class_sheet(collection.part(split, scheme), classes, each)
    write_atomically(out, lambda t: picture.save(t, format="PNG"))
    if json:
        emit({"collection": collection.id, "file": str(out), "width": picture.width, "height": picture.height})
    else:
        print(out)


def _rule(
    by: str | None, file: Path | None, fractions: str | None, seed: int, on: str | None, scheme: str | None
) -> Any:
    """The split rule that the options describe, if any."""
    from handful.data.splits import ByCount, ByFile, ByFraction

    if by is None and file is None:
        if fractions or on or scheme:
            raise BadInput("--fractions, --on and --scheme need --split-by fraction, count, file or primitives")
        return None
    by = by or "file"
    if file is not None and by != "file":
        raise BadInput(f"--split-file goes with a split by file, not by {by}")
    shared: dict[str, Any] = {"scheme": scheme or "split", "on": tuple(on.split(",")) if on else ()}
    if by == "file":
        if file is None:
            raise BadInput("a split by file needs --split-file: JSON, CSV or a folder of .txt")
        if fractions:
            raise BadInput("--fractions go with a split by fraction or by count, not by file")
        return ByFile(path=str(file), **shared)
    if by not in ("fraction", "count", "primitives"):
        raise BadInput(f"a split is made by fraction, count, file or primitives, not by {by!r}")
    shares = _shares(fractions)
    if by == "primitives":
        from handful.data.pair_splits import ByPrimitive

        if on:
            raise BadInput("a split by primitives keeps the values of both label columns together; leave --on out")
        return ByPrimitive(seed=seed, scheme=scheme or "primitives", **shares)
    return ByCount(**shares, **shared) if by == "count" else ByFraction(seed=seed, **shares, **shared)


def _shares(text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        train, valid, test = (float(part) for part in text.split(","))
    except ValueError as error:
        raise BadInput(
            f"--fractions takes three numbers for train, valid and test, such as 0.64,0.16,0.2, not {text}"
        ) from error
    return {"train": train, "valid": valid, "test": test}


@contextmanager
def _whole_or_nothing(target: Path) -> Iterator[None]:
    """Ctrl-C, a closed terminal and a polite kill all clean up and end in a sentence."""
    polite = [getattr(signal, n) for n in ("SIGTERM", "SIGHUP") if hasattr(signal, n)]
    main = threading.current_thread() is threading.main_thread()
    before = {s: signal.signal(s, _stop) for s in polite} if main else {}
    try:
        yield
    except KeyboardInterrupt as error:
        raise BadInput(f"stopped by the keyboard or a signal; nothing half-written is in {target}") from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _card(collection: Any) -> dict[str, Any]:
    card = collection.card
    facts = {"id": collection.id, "path": str(collection.path), "images": len(collection), "shape": card.shape}
    return facts | {"labels": card.labels, "schemes": card.schemes, "context": card.context}


def _print(frame: Any, rows: int = 40, columns: int = 12) -> None:
    """A frame as plain text, cut to what a terminal holds."""
    import polars as pl

    lines = "─│┌┐═╪".encode(sys.stdout.encoding or "utf-8", "ignore")
    with pl.Config(
        tbl_formatting="UTF8_FULL_CONDENSED" if lines else "ASCII_FULL_CONDENSED",
        tbl_rows=rows,
        tbl_cols=columns,
        tbl_hide_dataframe_shape=True,
        tbl_hide_column_data_types=True,
        tbl_width_chars=160,
    ):
        print(frame)
