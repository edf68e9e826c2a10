"""handful report"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.options import OUTPUT, Json, emit, must_end, usable_folder
from handful.errors import BadInput, nearest

app = typer.Typer(add_completion=False)

COMPARING = "How runs are compared"


@app.command()
def report(
    runs: Annotated[
        list[str], typer.Argument(help="Runs' folders, recipes' folders, or folders of these; LABEL=FOLDER names one.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="The page to write, such as page.html.", rich_help_panel=OUTPUT)
    ] = None,
    tables: Annotated[
        Path | None, typer.Option("--tables", help="A folder for every table as files.", rich_help_panel=OUTPUT)
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--as", help="Format of the tables: csv, latex, markdown (all by default).", rich_help_panel=OUTPUT
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", help="Column to compare; the main one by default.", rich_help_panel=COMPARING),
    ] = None,
    test: Annotated[
        str, typer.Option("--test", help="Paired test: sign-flip, t or wilcoxon.", rich_help_panel=COMPARING)
    ] = "sign-flip",
    alpha: Annotated[
        float,
        typer.Option("--alpha", help="Level at which two methods are called different.", rich_help_panel=COMPARING),
    ] = 0.05,
    groups: Annotated[
        str, typer.Option("--groups", help="Bars of the rank diagram: wilcoxon or nemenyi.", rich_help_panel=COMPARING)
    ] = "wilcoxon",
    over: Annotated[
        str, typer.Option("--over", help="Ranks over tasks, datasets or auto.", rich_help_panel=COMPARING)
    ] = "auto",
    collection: Annotated[
        str | None,
        typer.Option(
            "--collection", help="The collection, if it is not where the runs found it.", rich_help_panel=COMPARING
        ),
    ] = None,
    pictures: Annotated[
        int,
        typer.Option(
            "--pictures", min=0, help="Tasks to picture, of the largest disagreement.", rich_help_panel=OUTPUT
        ),
    ] = 3,
    title: Annotated[str, typer.Option("--title", help="Title of the page.", rich_help_panel=OUTPUT)] = "",
    same_tasks: Annotated[
        bool,
        typer.Option(
            "--same-tasks", help="Refuse runs that were not all asked the same tasks.", rich_help_panel=COMPARING
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Compare runs: means with intervals, ties, paired tests, ranks, curves, pictures, as a page and as tables.

    Examples:

    handful report runs/protonet runs/matchingnet --out page.html --tables tables

    handful report ours=runs/a theirs=runs/b --metric balanced --test wilcoxon --json

    handful report runs/ --same-tasks --tables tables --as latex
    """
    must_end(out, "--out", ".html", ".htm")
    from handful.data.opening import open_collection
    from handful.report.report import Report
    from handful.report.tables import FORMATS

    usable_folder(tables, "--tables")
    for name in formats or ():
        if name not in FORMATS:
            raise BadInput(f"no format of tables {name!r}; {nearest(name, FORMATS)}")
    result = Report(
        runs,
        title=title,
        metric=metric,
        test=test,
        alpha=alpha,
        groups=groups,
        over=over,
        collection=open_collection(collection) if collection else None,
        pictures=pictures,
        same_tasks=same_tasks,
    )
    if tables is not None:
        result.write_tables(tables, formats or FORMATS)
    if out is not None:
        result.save(out)
    emit(result.as_dict()) if json else print(result)
