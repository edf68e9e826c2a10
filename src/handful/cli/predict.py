"""handful predict"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli.groups import Computing, Reading, spread
from handful.cli.options import OUTPUT, READING, Json, emit, must_end

app = typer.Typer(add_completion=False)


@app.command()
@spread
def predict(
    model: Annotated[Path, typer.Argument(help="Model folder that handful fit has written; none with --names.")],
    images: Annotated[
        list[str] | None, typer.Argument(help="Photos, folders or zips of them, or packed collections.")
    ] = None,
    names: Annotated[
        str,
        typer.Option(
            "--names",
            help="Names of the classes instead of a model: photos are matched with texts, nothing is learned.",
            rich_help_panel=READING,
        ),
    ] = "",
    prompts: Annotated[
        str,
        typer.Option(
            "--prompts",
            help="With --names: photo, ensemble, bare, or a text with {} for the name.",
            rich_help_panel=READING,
        ),
    ] = "photo",
    csv: Annotated[
        Path | None, typer.Option("--csv", help="Also write the answers to this file.", rich_help_panel=OUTPUT)
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            "--page",
            help="Also write a page with thumbnails and reasons, the doubtful first.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    sort_into: Annotated[
        Path | None,
        typer.Option("--sort-into", help="Copy each photo into DIR/ANSWER/.", rich_help_panel=OUTPUT),
    ] = None,
    score: Annotated[
        bool,
        typer.Option(
            "--score",
            help="The photos have labels (read as by handful fit): say how many answers are right.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve",
            help="Answer over HTTP on this machine instead: POST a photo's file to /answer.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", min=1, max=65535, help="Port of --serve (8765, or any free one).", rich_help_panel=OUTPUT
        ),
    ] = None,
    net: Annotated[
        str,
        typer.Option(
            "--net",
            help="The network of your own that the model was fitted with, given again (torch:file.py:Class); with --names "
            "one of images and texts, lite2+minilm unless told.",
            rich_help_panel=READING,
        ),
    ] = "",
    reading: Reading = Reading(),
    computing: Computing = Computing(batch=8),
    json: Json = False,
) -> None:
    """Say of which class each photo is, how sure that is, or that it is none of these; or match photos with names.

    Examples:

    handful predict model new.jpg more/ --csv answers.csv --page answers.html

    handful predict model held-out/ --score

    handful predict model unsorted/ --sort-into sorted/ --json

    handful predict --names "oak,elm,birch" photos/

    handful predict model --serve
    """
    _free(csv, page, sort_into)

    from handful.errors import BadInput
    from handful.photos.model import load
    from handful.progress import note

    if serve:
        if images or names or csv or page or sort_into or score or json:
            raise BadInput("--serve answers whoever asks; give it no photos and none of the other outputs")
        from handful.errors import require

        require("fastapi", "serve")
        from handful.studio.answering import serve_answers

        return serve_answers(load(model, computing.compute(), net or None), port)
    if port is not None:
        raise BadInput("--port goes with --serve")
    if not score and reading != Reading():
        raise BadInput("--as and --set say how labels are read; they go with --score")
    if not (images or names):
        raise BadInput("say which photos: handful predict MODEL PHOTO...; or --serve to answer over HTTP")
    ready: Any
    if names:
        from handful.photos.named import WITH_TEXT, by_names

        images = [str(model), *(images or [])]
        ready = by_names(names, net=net or WITH_TEXT, prompts=prompts, compute=computing.compute())
        note(ready.about)
    elif prompts != "photo":
        raise BadInput("--prompts says how names are read; it goes with --names")
    else:
        ready = load(model, computing.compute(), net or None)
    assert images
    found = truth = None
    if score:
        if len(images) != 1:
            raise BadInput(f"--score takes one folder or collection with labels, not {len(images)}")
        found, answers, truth = ready.score(images[0], layout=reading.layout, options=reading.options())
    else:
        answers = ready.predict(images)
    if not len(answers):
        name, reason = answers.unreadable[0]
        raise BadInput(f"{name} {reason}; give photos that can be read")
    if sort_into is not None:
        from handful.photos.sorting import sort_into as sort_photos

        sort_photos(answers, sort_into)
    if csv is not None:
        answers.to_csv(csv)
    if page is not None:
        from handful.report.photos_page import answers_page

        answers_page(page, ready, answers, truth, str(found).splitlines()[0] if found else "")
    for name, reason in answers.unreadable:
        print(f"handful: {name} {reason}; it has no answer", file=sys.stderr)
    if json:
        facts = {"answers": answers.frame.to_dicts(), "counts": answers.counts, "unreadable": dict(answers.unreadable)}
        facts |= {"about": ready.about} if names else {}
        emit({**facts, "score": found.as_dict()} if found else facts)
    else:
        print("\n".join(map(str, (answers, answers.summary, *([found] if found else [])))))


def _free(csv: Path | None, page: Path | None, folder: Path | None) -> None:
    """Refuse before any work what could not be written after it."""
    from handful.errors import BadInput

    must_end(csv, "--csv", ".csv")
    must_end(page, "--page", ".html", ".htm")
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"--sort-into {folder} is there already; name a folder that does not exist yet")
