"""handful fit"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.groups import Computing, Reading, spread
from handful.cli.options import OUTPUT, TRAINING, Json, emit, must_end

app = typer.Typer(add_completion=False)


@app.command()
@spread
def fit(
    photos: Annotated[
        str,
        typer.Argument(
            help="Folder (or zip) with one folder of photos for each class, photos with a CSV, or a packed collection."
        ),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="Model folder to write.", rich_help_panel=OUTPUT)] = None,
    reading: Reading = Reading(),
    net: Annotated[
        str,
        typer.Option(
            "--net", help="Frozen network (handful ls nets); auto is lite2:size=260.", rich_help_panel=TRAINING
        ),
    ] = "auto",
    head: Annotated[
        str,
        typer.Option("--head", help="prototypes or linear; auto chooses by leave-one-out.", rich_help_panel=TRAINING),
    ] = "auto",
    refuse: Annotated[
        float,
        typer.Option(
            "--refuse",
            help="Share of the classes' own photos that may be called none of these; 0 never refuses.",
            rich_help_panel=TRAINING,
        ),
    ] = 0.1,
    catch: Annotated[
        float,
        typer.Option(
            "--catch",
            help="Stricter: refuse as much as it takes to catch this share of strangers, by classes left out in turn.",
            rich_help_panel=TRAINING,
        ),
    ] = 0.0,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of the bootstrap of the expected accuracy.", rich_help_panel=TRAINING)
    ] = 0,
    page: Annotated[
        Path | None,
        typer.Option("--page", help="Also write what was found as a page with pictures.", rich_help_panel=OUTPUT),
    ] = None,
    app_file: Annotated[
        Path | None,
        typer.Option(
            "--app",
            help="Write the classifier as one HTML file that runs in any browser, without a server.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    onnx: Annotated[
        Path | None,
        typer.Option(
            "--onnx", help="Write the classifier as an ONNX graph, from pixels to answers.", rich_help_panel=OUTPUT
        ),
    ] = None,
    runtime: Annotated[
        Path | None,
        typer.Option(
            "--runtime",
            help="Archive of onnxruntime-web (npm pack) for --app, instead of fetching it once.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    computing: Computing = Computing(batch=8),
    json: Json = False,
) -> None:
    """Make a classifier from a handful of photos, and say what to expect of it.

    Examples:

    handful fit photos --out model --page found.html

    handful fit photos --out model --as csv --set labels=species --catch 0.9

    handful fit photos --app birds.html --onnx birds.onnx

    handful fit photos --out model --net lite0:size=224 --head prototypes --refuse 0.05
    """
    from handful.errors import BadInput
    from handful.photos.model import fit as fit_photos
    from handful.photos.model import is_photo_model

    must_end(page, "--page", ".html", ".htm")
    must_end(app_file, "--app", ".html", ".htm")
    must_end(onnx, "--onnx", ".onnx")
    if runtime is not None and (app_file is None or not runtime.is_file()):
        raise BadInput(f"--runtime {runtime} must be the archive that npm pack makes, and goes with --app")
    if not (out or app_file or onnx):
        raise BadInput("say where the classifier goes: --out FOLDER, --app FILE.html or --onnx FILE.onnx")
    if out is not None and out.exists() and not is_photo_model(out) and any(out.iterdir() if out.is_dir() else [out]):
        raise BadInput(f"{out} exists and is not a classifier of photos; name another folder or remove it first")
    model = fit_photos(
        photos,
        net=net,
        head=head,
        refuse=refuse,
        catch=catch,
        seed=seed,
        layout=reading.layout,
        options=reading.options(),
        compute=computing.compute(),
    )
    if out is not None:
        model.save(out)
    if app_file is not None:
        from handful.studio.app_file import write_app

        write_app(model, app_file, runtime)
    if onnx is not None:
        from handful.studio.graph import write_onnx

        write_onnx(model, onnx)
    if page is not None:
        from handful.report.photos_page import fit_page

        fit_page(page, model, photos)
    made = {"model": out, "app": app_file, "onnx": onnx}
    if json:
        emit({**{k: str(v) for k, v in made.items() if v}, **model.report.as_dict()})
    else:
        print("\n".join([str(model.report), *(f"{k} in {v}" for k, v in made.items() if v)]))
