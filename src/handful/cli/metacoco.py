"""handful metacoco"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from handful.cli.options import BatchSize, Device, Json, Precision, Threads, compute_of, emit, usable_folder

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def _metacoco() -> None:
    """The context-shift paper's metric and figures for collections of your own."""


@app.command()
def figures(
    collection: Annotated[str, typer.Argument(help="Packed folder, or world:...; contexts for figure 3.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the drawings, their numbers and the models.")],
    method: Annotated[
        list[str] | None, typer.Option("--method", help="Method to show, once each; the paper's eight without it.")
    ] = None,
    net: Annotated[
        list[str] | None, typer.Option("--net", help="Backbone, once each; the first is that of figures 3, 5 and 7.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option("--steps", min=0, help="Training steps of each method; metacoco/table6's without it.")
    ] = None,
    tasks: Annotated[int, typer.Option("--tasks", "--n", min=2, help="Tasks a point.")] = 600,
    queries: Annotated[int, typer.Option("--queries", min=1, help="Query images a class.")] = 15,
    ways: Annotated[str, typer.Option("--ways", help="Ways of figures 5 and 7, with commas.")] = "5,10,15,20",
    shots: Annotated[str, typer.Option("--shots", help="Shots of figures 5 and 7, with commas.")] = "1,3,5,7,10",
    seed: Annotated[int, typer.Option("--seed", help="Seed of training and of the tasks.")] = 0,
    device: Device = "cpu",
    precision: Precision = "float32",
    batch: BatchSize = 64,
    threads: Threads = 1,
    json: Json = False,
) -> None:
    """Figures 3 to 7: iid and ood tasks, backbones, ways and shots, as SVG with every number in figures.csv.

    Example: handful metacoco figures world:images=160,classes=100 --out figures --tasks 100
    """
    from handful.data.opening import open_collection
    from handful.report.metacoco import METHODS, metacoco_figures, trained
    from handful.runs.learners import choose_part

    usable_folder(out)
    many_ways, many_shots = numbers(ways, "--ways"), numbers(shots, "--shots")
    opened = open_collection(collection)
    learners = trained(
        opened,
        method or METHODS,
        net or ("conv4",),
        steps,
        out / "models",
        compute=compute_of(device, precision, batch, threads),
        seed=seed,
        say=lambda text: print(text, file=sys.stderr),
    )
    sweep = metacoco_figures(
        learners,
        choose_part(opened, "test", None),
        out,
        ways=many_ways,
        shots=many_shots,
        queries=queries,
        tasks=tasks,
        seed=seed,
    )
    drawn = sorted(p.name for p in out.glob("figure*.svg"))
    if json:
        emit({"collection": opened.id, "drawn": drawn, "left_out": sweep.left_out, "rows": sweep.rows})
        return
    print(f"{opened.id}: {len(drawn)} drawings and figures.csv in {out}")
    for what, why in sweep.left_out.items():
        print(f"left out {what}: {why}")


Places = Annotated[list[str], typer.Argument(help="Packed folders, world:..., folders or zips of images.")]


@app.command()
def similarity(
    places: Places,
    clip: Annotated[str, typer.Option("--clip", help="Folder of a CLIP checkpoint, or its name on the hub.")],
    template: Annotated[str, typer.Option("--template", help="Prompts: bare, photo, scene or style.")] = "photo",
    column: Annotated[str, typer.Option("--column", help="Column of contexts; the collection's own without it.")] = "",
    split: Annotated[str, typer.Option("--split", help="Split to look at; every image without it.")] = "all",
    reported: Annotated[bool, typer.Option("--reported", help="Rank beside the paper's own numbers.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the drawings and every image's numbers.")
    ] = None,
    device: Device = "cpu",
    precision: Precision = "float32",
    batch: BatchSize = 64,
    threads: Threads = 1,
    json: Json = False,
) -> None:
    """Image-text similarities M_ce and M_te (Eq. 1), the scatter of Figure 2(b) and the ranking of Figure 2(a).

    Example: handful metacoco similarity packed/pacs packed/mine --clip clip-vit-base-patch32/ --out similarity
    """
    from handful.audits.similarity import check_images, ranking, scatter
    from handful.audits.similarity import similarity as measure
    from handful.data.opening import open_collection
    from handful.files import write_atomically
    from handful.nets.clip import Clip
    from handful.report.sheets import slug
    from handful.runs.learners import choose_part

    usable_folder(out)
    compute = compute_of(device, precision, batch, threads)
    parts = [choose_part(open_collection(place), split, None) for place in places]
    for part in parts:
        check_images(part)
    net = Clip(parts[0].collection.card.shape, clip)
    found = [measure(part, net, template, column=column, compute=compute) for part in parts]
    if out is not None:
        drawn = {"figure2a.svg": ranking(found, reported).encode()}
        stems = [slug(one.name) for one in found]
        if len(set(stems)) < len(stems):
            stems = [f"{stem}-{i}" for i, stem in enumerate(stems, start=1)]
        for stem, one in zip(stems, found, strict=True):
            drawn[f"{stem}.csv"] = one.frame.write_csv().encode()
            if one.context is not None:
                drawn[f"figure2b-{stem}.svg"] = scatter(one).encode()
        for name, data in drawn.items():
            write_atomically(out / name, lambda path, data=data: path.write_bytes(data))  # type: ignore[misc]
    rows = [
        {"collection": part.collection.id, "split": split, "template": template, "images": len(part)}
        | {key: e and e.as_dict() for key, e in (("M_ce", s.concept), ("M_te", s.context), ("M_te - M_ce", s.lead))}
        for part, s in zip(parts, found, strict=True)
    ]
    if json:
        emit({"clip": clip, "rows": rows})
        return
    for part, s in sorted(zip(parts, found, strict=True), key=lambda pair: pair[1].concept.value):
        text = f"{part.collection.id}: {len(part)} images, M_ce {s.concept.value:.3f} ± {s.concept.half:.3f}"
        if s.context is not None and s.lead is not None:
            text += f", M_te {s.context.value:.3f} ± {s.context.half:.3f}, M_te - M_ce {s.lead.value:.3f} ± {s.lead.half:.3f}"
        print(text)


@app.command()
def probe(
    places: Places,
    net: Annotated[str, typer.Option("--net", help="Backbone whose features are probed (handful ls nets).")] = "lite0",
    column: Annotated[str, typer.Option("--column", help="Column of contexts; the collection's own without it.")] = "",
    split: Annotated[str, typer.Option("--split", help="Split to look at; every image without it.")] = "all",
    folds: Annotated[int, typer.Option("--folds", min=2, help="Folds of the cross-validation.")] = 5,
    most: Annotated[int, typer.Option("--most", min=10, help="Images used, drawn at random.")] = 3000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the drawing and of the folds.")] = 0,
    device: Device = "cpu",
    precision: Precision = "float32",
    batch: BatchSize = 64,
    threads: Threads = 1,
    json: Json = False,
) -> None:
    """Where there is no CLIP: how well linear probes on features tell the context, and the concept; guessing is 0.

    Example: handful metacoco probe packed/pacs --net lite0
    """
    from handful.audits.probe import probed
    from handful.data.opening import open_collection
    from handful.runs.learners import choose_part

    compute = compute_of(device, precision, batch, threads)
    rows = []
    for place in places:
        part = choose_part(open_collection(place), split, None)
        found = probed(part, net, column=column, folds=folds, most=most, seed=seed, compute=compute)
        rows.append(
            {"collection": part.collection.id, "net": net, "images": found.images}
            | {"context": found.context.as_dict(), "concept": found.concept.as_dict(), "lead": found.lead.as_dict()}
        )
        if not json:
            print(
                f"{part.collection.id}: {found.images} images, context {found.context.value:.2f} ± {found.context.half:.2f}, "
                f"concept {found.concept.value:.2f} ± {found.concept.half:.2f}, context ahead by {found.lead.value:.2f}"
            )
    if json:
        emit({"rows": rows})


def numbers(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers with commas between them."""
    from handful.errors import BadInput

    try:
        found = tuple(int(x) for x in text.split(","))
    except ValueError as error:
        raise BadInput(f"{option} takes whole numbers with commas between them, not {text!r}") from error
    if min(found) < 1:
        raise BadInput(f"{option} takes numbers of at least 1, not {text!r}")
    return found
