"""handful rlcl"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli.options import Json, parse_settings
from handful.errors import BadInput, Infeasible, nearest

app = typer.Typer(no_args_is_help=True, add_completion=False)

Primitives = Annotated[int, typer.Option("--primitives", help="Primitives a side.")]
Shots = Annotated[int, typer.Option("--shots", help="Support images a seen pair.")]


@app.callback()
def _rlcl() -> None:
    """Build and describe collections for compositional tasks."""


@app.command()
def build(
    which: Annotated[str, typer.Argument(help="attr (attribute-object) or act (action-object).")],
    source: Annotated[Path, typer.Argument(help="Folder that holds the three data sets, each as distributed.")],
    target: Annotated[Path, typer.Argument(help="Folder for the packed collection.")],
    size: Annotated[int, typer.Option("--size", help="Side of the images in pixels.")] = 84,
    settings: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="Option of the builder: least, sizes, keep.")
    ] = None,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave unreadable files out.")] = False,
    workers: Annotated[int | None, typer.Option("--workers", min=1, help="Decoding processes.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a packed collection that is there.")] = False,
    json: Json = False,
) -> None:
    """Build RLCL-ATTR or RLCL-ACT, saying what each filter removed.

    Example: handful rlcl build attr raw/ packed/rlcl-attr
    """
    from handful.data.pack import make_importer, pack
    from handful.data.rlcl import BUILDERS
    from handful.data.sources import open_source

    if which not in BUILDERS:
        raise BadInput(f"{which!r} is neither attr nor act; {nearest(which, BUILDERS)}")
    importer = make_importer(BUILDERS[which].name, open_source(source), parse_settings(settings))
    done = pack(
        source, target, importer, size=size, name=importer.name, skip_bad=skip_bad, workers=workers, force=force
    )
    _show(done.collection, which, 5, 5, list(done.notes), json)


@app.command()
def stats(
    collection: Annotated[str, typer.Argument(help="A pair collection: packed folder or world:label=colour+glyph,...")],
    primitives: Primitives = 5,
    shots: Shots = 5,
    json: Json = False,
) -> None:
    """Pairs, primitives and samples of each split, and the references a task has.

    Example: handful rlcl stats world:label=colour+glyph,mask=0.16,splits=0.5+0.25+0.25
    """
    from handful.data.opening import open_collection

    opened = open_collection(collection)
    which = opened.card.name.removeprefix("rlcl-") if opened.card.name in ("rlcl-attr", "rlcl-act") else None
    _show(opened, which, primitives, shots, [], json)


def _show(collection: Any, which: str | None, primitives: int, shots: int, notes: list[str], as_json: bool) -> None:
    import json

    from handful.data.rlcl import statistics
    from handful.tasks.pairs import Pairs, references

    table = statistics(collection, which)
    found: dict[str, dict[str, float] | str] = {}
    for part in ("train", "valid", "test"):
        if not collection.has(part):
            continue
        try:
            rule = Pairs(collection.part(part), primitives=primitives, shots=shots)
            rule.check()
            found[part] = references(rule)
        except Infeasible as error:
            found[part] = str(error)
    if as_json:
        facts = {"collection": collection.id, "notes": notes, "splits": table.to_dicts(), "references": found}
        print(json.dumps(facts, indent=1))
        return
    for note in notes:
        print(note)
    print(f"{collection.id}")
    for row in table.iter_rows(named=True):
        said = ", ".join(
            f"{row[k]:,} {name}" + (f" (reported {row[f'reported_{k}']:,})" if which else "")
            for k, name in (
                ("pairs", "pairs"),
                ("first", f"{collection.card.labels[0]}s"),
                ("second", f"{collection.card.labels[1]}s"),
                ("samples", "samples"),
            )
        )
        print(
            f"{row['split']}: {said}; {100 * row['grid']:.1f}% of the grid, {row['samples_a_pair']:.2f} samples a pair"
        )
    for part, value in found.items():
        if isinstance(value, str):
            print(f"{part}: no tasks: {value}")
            continue
        print(
            f"{part} tasks, {primitives} primitives a side, {shots} shots: {value['seen_pairs_a_primitive']:.2f} seen pairs and "
            f"{value['samples_a_primitive']:.2f} samples a primitive"
            + (
                " (reported 1.28 and 6.39)"
                if part == "test" and which == "attr" and (primitives, shots) == (5, 5)
                else ""
            )
        )
