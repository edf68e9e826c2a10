"""handful repair"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.groups import Computing, spread
from handful.cli.options import OUTPUT, SEEING, TASKS, Json, Seed, emit, usable_folder
from handful.errors import BadInput

app = typer.Typer(add_completion=False)

FOUND, DONE = "What is looked for", "What is done"


@app.command()
@spread
def repair(
    collection: Annotated[
        str, typer.Argument(help="Packed folder, world:..., a folder or zip of images; with --undo a repaired folder.")
    ],
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Only this repair (handful ls repairs); may be repeated.", rich_help_panel=FOUND),
    ] = None,
    minutes: Annotated[
        float,
        typer.Option(
            "--minutes", min=0.0, help="Minutes for looking, and as many for the certificate.", rich_help_panel=FOUND
        ),
    ] = 4.0,
    taxonomy: Annotated[
        Path | None,
        typer.Option("--taxonomy", help="Hierarchy of the classes: rows child,parent.", rich_help_panel=FOUND),
    ] = None,
    copy: Annotated[
        str,
        typer.Option(
            "--copy", help="Which copy is kept of an image in two splits: test or train.", rich_help_panel=DONE
        ),
    ] = "test",
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            help="A repair that is not made, or an image (row or file name) that nothing is done to; may be repeated.",
            rich_help_panel=DONE,
        ),
    ] = None,
    confirm: Annotated[
        list[str] | None,
        typer.Option(
            "--confirm",
            help="Apply a repair that is only listed by default (labels, splits); may be repeated.",
            rich_help_panel=DONE,
        ),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="Apply this plan, edited or not.", rich_help_panel=DONE)
    ] = None,
    plan_only: Annotated[
        bool,
        typer.Option("--plan-only", help="Write the plan and its pictures, and apply nothing.", rich_help_panel=DONE),
    ] = False,
    undo: Annotated[
        bool,
        typer.Option(
            "--undo",
            help="Take back what was applied to a repaired folder (with --only, that alone).",
            rich_help_panel=DONE,
        ),
    ] = False,
    ways: Annotated[
        int, typer.Option("--ways", min=2, help="Number of classes in each task.", rich_help_panel=TASKS)
    ] = 5,
    shots: Annotated[
        int, typer.Option("--shots", min=1, help="Number of support images of each class.", rich_help_panel=TASKS)
    ] = 5,
    queries: Annotated[
        int, typer.Option("--queries", min=1, help="Number of query images of each class.", rich_help_panel=TASKS)
    ] = 15,
    seed: Seed = 0,
    net: Annotated[
        str,
        typer.Option(
            "--net",
            help="Backbone of the frozen features; lite0 if it is installed, else pixels.",
            rich_help_panel=SEEING,
        ),
    ] = "",
    computing: Computing = Computing(),
    no_certificate: Annotated[
        bool,
        typer.Option(
            "--no-certificate", help="Skip the audits and the panel before and after.", rich_help_panel=OUTPUT
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the repaired collection.", rich_help_panel=OUTPUT)
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what a repair wrote there before.", rich_help_panel=OUTPUT)
    ] = False,
    json: Json = False,
) -> None:
    """Find faults of a benchmark and repair them: a plan to read and edit, a split, a mask and weights over the same images, a certificate.

    Examples:

    handful repair world --out fixed --minutes 0.5

    handful repair packed/pacs --out fixed/pacs --plan-only

    handful repair packed/pacs --out fixed/pacs --plan fixed/pacs/plan.toml

    handful repair packed/photos --out fixed/photos --only duplicates --keep images/cat-12.jpg

    handful repair fixed/photos --undo --only duplicates
    """
    from handful import registry
    from handful.data.opening import open_collection
    from handful.data.store import OVER
    from handful.repair import certificate as certificates
    from handful.repair.pictures import save_pictures
    from handful.repair.plan import PLAN, Plan
    from handful.repair.repair import apply, propose, undone

    for name in (*(only or ()), *(confirm or ())):
        registry.get("repairs", name)
    if undo:
        if out is not None or plan is not None or plan_only:
            raise BadInput("--undo works on a repaired folder in place; give it as COLLECTION, and no --out or --plan")
        back = undone(collection, only or ())
        facts = {"collection": back.id, "images": len(back)}
        emit(facts) if json else print(
            f"{collection} holds {back.id} with {len(back):,} images; its plan keeps what was taken back"
        )
        return
    if out is None:
        raise BadInput("name the folder of the repaired collection: --out FIXED")
    usable_folder(out)
    used = out.is_dir() and any(out.iterdir())
    mine = used and ({p.name for p in out.iterdir()} <= {PLAN, "labels.html"} or (force and (out / OVER).is_file()))
    if used and not mine:
        raise BadInput(f"{out} exists and is not empty; name another folder, or replace an earlier repair with --force")
    if plan is not None and plan_only:
        raise BadInput("--plan applies a plan and --plan-only makes one; give one of them")
    source = open_collection(collection, skip_bad=True)
    compute = computing.compute()
    if plan is not None:
        made = Plan.read(plan)
        made.check(source)
        made = made.only(only) if only else made
        made = made.confirming(confirm or ())
    else:
        made = propose(
            source, only=only or (), keep=keep or (), confirm=confirm or (), copy=copy, ways=ways, shots=shots, queries=queries,
            taxonomy=taxonomy, net=net, seed=seed, minutes=minutes, compute=compute,
        )  # fmt: skip
    if plan_only:
        out.mkdir(parents=True, exist_ok=True)
        made.save(out / PLAN, source)
        save_pictures(source, made, out)
        facts = {
            "plan": str(out / PLAN),
            "found": {k: n for k, (n, _) in made.counted().items()},
            "left_out": made.left_out,
        }
        emit(facts) if json else print(f"{made}\n{out / PLAN} holds the plan; apply it with --plan {out / PLAN}")
        return
    fixed = apply(source, made, out, force=mine)
    save_pictures(source, made, out)
    facts = {"collection": fixed.id, "images": len(fixed), "of": source.id, "left_out": made.left_out}
    facts["repairs"] = {k: {"found": n, "done": d} for k, (n, d) in made.counted().items()}
    said = [str(made), f"{out}: {fixed.id}, {len(fixed):,} of {len(source):,} images"]
    if not no_certificate:
        certificate = certificates.certify(source, fixed, made, minutes=minutes, net=net, seed=seed, compute=compute)
        certificate.save(out)
        facts["certificate"] = certificate.facts["panel"]["tau"]
        said.append(str(certificate))
    emit(facts) if json else print("\n".join(said))
