"""handful audit"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.options import Device, Json, Seed, Threads, emit

app = typer.Typer(add_completion=False)


@app.command()
def audit(
    collection: Annotated[str, typer.Argument(help="Packed folder, world:..., or a folder of images.")],
    only: Annotated[list[str] | None, typer.Option("--only", help="This diagnosis alone (may be given again).")] = None,
    net: Annotated[
        str, typer.Option("--net", help="Backbone of the frozen features; lite0 if at hand, else pixels.")
    ] = "",
    features: Annotated[
        Path | None, typer.Option("--features", help="Features of every image instead of a net: .npy, .npz or .h5.")
    ] = None,
    budget: Annotated[float, typer.Option("--budget", help="Minutes for the whole audit.")] = 5.0,
    tasks: Annotated[
        int, typer.Option("--tasks", "--n", help="Tasks planned for a study, to say what they can show.")
    ] = 600,
    split: Annotated[
        str, typer.Option("--split", help="Split to audit, or all; test by default (all, below five test classes).")
    ] = "",
    rule: Annotated[
        str, typer.Option("--rule", help="Rule that tasks are drawn by (handful ls rules); n-way by default.")
    ] = "",
    method: Annotated[
        str, typer.Option("--method", help="Method by name, or a model folder: the budget splits its score.")
    ] = "",
    out: Annotated[
        Path | None, typer.Option("--out", help="Page to write (.html; .json and .csv hold the same facts).")
    ] = None,
    device: Device = "cpu",
    threads: Threads = 1,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Ask what a benchmark's score will really mean: every diagnosis that the collection allows, in the given minutes.

    Example: handful audit world --budget 2 --out world.html
    """
    from handful import registry
    from handful.audits.audit import audit as run_audit
    from handful.data.opening import open_collection
    from handful.errors import BadInput
    from handful.nets.compute import Compute

    for name in only or []:
        registry.get("diagnoses", name)
    if out is not None and out.suffix not in (".html", ".htm", ".json", ".csv"):
        raise BadInput(f"{out}: an audit is saved as .html, .json or .csv; name the file so")
    result = run_audit(
        open_collection(collection, skip_bad=True),
        only=only,
        net=net,
        features=features,
        seed=seed,
        minutes=budget,
        planned=tasks,
        split=split,
        rule=rule,
        method=method,
        compute=Compute(device=device, threads=threads),
    )
    if out is not None:
        result.save(out)
    emit(result.as_dict()) if json else print(result)
