"""handful rlcl"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from handful.cli.options import Json, emit, parse_settings
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
        list[str] | None, typer.Option("--set", "-s", help="Option of the builder: least, sizes, keep, split.")
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


@app.command()
def split(
    place: Annotated[Path, typer.Argument(help="Packed folder with two label columns.")],
    fractions: Annotated[
        str, typer.Option("--fractions", help="Train, valid and test shares of each column's primitives.")
    ] = "0.5,0.25,0.25",
    seed: Annotated[int, typer.Option("--seed", help="Seed of the split.")] = 0,
    scheme: Annotated[str, typer.Option("--scheme", help="Name of the scheme.")] = "primitives",
    json: Json = False,
) -> None:
    """Split a pair collection so that no primitive is in two splits; images whose primitives part company are in none.

    Example: handful rlcl split packed/mit-states --fractions 0.6,0.2,0.2 --seed 1
    """
    from handful.data.rlcl import ByPrimitive
    from handful.data.splits import add_scheme

    try:
        train, valid, test = (float(part) for part in fractions.split(","))
    except ValueError as error:
        raise BadInput(f"--fractions takes three numbers such as 0.5,0.25,0.25, not {fractions}") from error
    collection = add_scheme(place, ByPrimitive(scheme=scheme, train=train, valid=valid, test=test, seed=seed))
    out = (collection.table[scheme] == "").sum()
    note = f"{out} of {len(collection)} images have their primitives in two splits and are in none"
    _show(collection, None, 5, 5, [note], json)


def _show(collection: Any, which: str | None, primitives: int, shots: int, notes: list[str], as_json: bool) -> None:
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
        emit({"collection": collection.id, "notes": notes, "splits": table.to_dicts(), "references": found})
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
        dense = (
            f"; {100 * row['grid']:.1f}% of the grid, {row['samples_a_pair']:.2f} samples a pair"
            if row["pairs"]
            else ""
        )
        print(f"{row['split']}: {said}{dense}")
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
