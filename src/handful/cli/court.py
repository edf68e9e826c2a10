"""handful court"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from handful.cli.groups import Computing, Drawing, spread
from handful.cli.options import OUTPUT, TASKS, Json, Seed, Set, Split, emit, in_order, must_end, parse_settings

app = typer.Typer(add_completion=False)


@app.command()
@spread
def court(
    method: Annotated[str, typer.Argument(help="Method by name.")],
    collection: Annotated[str, typer.Argument(help="Packed folder, world:..., or a folder of images.")],
    drawing: Drawing = Drawing(shots="4"),
    tasks: Annotated[int, typer.Option("--tasks", "--n", min=2, help="Number of tasks.", rich_help_panel=TASKS)] = 100,
    free: Annotated[
        int,
        typer.Option(
            "--free",
            min=1,
            help="Validation images of each class that cost nothing, beside the queries.",
            rich_help_panel=TASKS,
        ),
    ] = 4,
    tried: Annotated[
        list[str] | None,
        typer.Option(
            "--try",
            help="Values to choose among, such as alpha=0.5,1,2; may be repeated. The method's own grid by default.",
        ),
    ] = None,
    seed: Seed = 0,
    split: Split = None,
    setting: Set = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write one row per task to this .csv.", rich_help_panel=OUTPUT)
    ] = None,
    computing: Computing = Computing(),
    json: Json = False,
) -> None:
    """Judge a method by three numbers: its options chosen on test, on free validation images, and honestly.

    Examples:

    handful court linear-probe world --set net=pixels --tasks 20

    handful court tip-adapter packed/pacs --shots 16 --free 4 --try alpha=0.5,1,2,4 --try beta=1,5.5
    """
    in_order("court", method, collection)
    must_end(out, "--out", ".csv")

    from handful.audits.court import court as judge
    from handful.data.opening import open_collection
    from handful.errors import BadInput
    from handful.files import write_atomically
    from handful.methods.contract import Method
    from handful.runs.learners import chosen

    made = chosen(method, parse_settings(setting), computing.compute())
    if not isinstance(made, Method):
        raise BadInput(f"court chooses a method's options, and {method} is a trained model; give a method's name")
    if drawing.rule is None and "texts" in made.needs:
        drawing = dataclasses.replace(drawing, rule="named")
    drawing = dataclasses.replace(drawing, queries=drawing.queries + free)
    rule = drawing.rule_on(open_collection(collection), split or "test")
    found = judge(made, rule, tries=values(tried), n=tasks, seed=seed, free=free, compute=computing.compute())
    if out is not None:
        write_atomically(out, lambda path: found.frame.write_csv(path))
    emit(found.as_dict()) if json else print(found)


def values(tried: list[str] | None) -> dict[str, list[str]] | None:
    """``OPTION=A,B,C`` by option."""
    from handful.errors import BadInput

    if not tried:
        return None
    out: dict[str, list[str]] = {}
    for text in tried:
        key, equals, rest = text.partition("=")
        found = [v.strip() for v in rest.split(",") if v.strip()]
        if not equals or not key.strip() or not found:
            raise BadInput(f"--try {text!r} is not OPTION=A,B,C; write for example --try alpha=0.5,1,2")
        out[key.strip()] = found
    return out
