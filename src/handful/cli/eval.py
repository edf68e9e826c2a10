"""handful eval"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from handful.cli.groups import Computing, Drawing, Working, spread
from handful.cli.options import (
    OUTPUT,
    SCORING,
    TASKS,
    TRAINING,
    Json,
    Out,
    Profile,
    Seed,
    Set,
    Split,
    emit,
    in_order,
    parse_settings,
    profiled,
    rule_of,
)

app = typer.Typer(add_completion=False)


@app.command("eval")
@spread
def evaluate_(
    method: Annotated[
        str, typer.Argument(help="Method by name (trained on the train split if it trains), or a model folder.")
    ],
    collection: Annotated[str, typer.Argument(help="Packed folder, world:..., or a folder of images.")],
    drawing: Drawing = Drawing(),
    tasks: Annotated[
        int | None,
        typer.Option(
            "--tasks",
            "--n",
            help="Number of tasks; 600 by default (every class once, for zero-shot rules).",
            rich_help_panel=TASKS,
        ),
    ] = None,
    seed: Seed = 0,
    repeats: Annotated[
        int,
        typer.Option("--repeats", help="Number of seeds, counted up from --seed.", rich_help_panel=TASKS),
    ] = 1,
    split: Split = None,
    setting: Set = None,
    train_rule: Annotated[
        str | None, typer.Option("--train-rule", help="Rule of the training tasks.", rich_help_panel=TRAINING)
    ] = None,
    train_ways: Annotated[
        str | None,
        typer.Option(
            "--train-ways",
            help="Number of classes in each training task, as in the test's by default.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    untrained: Annotated[
        bool, typer.Option("--untrained", help="Skip meta-training.", rich_help_panel=TRAINING)
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option("--save", help="Keep the trained learner in this model folder.", rich_help_panel=OUTPUT),
    ] = None,
    answers: Annotated[
        bool, typer.Option("--answers", help="Keep every answer beside the table.", rich_help_panel=OUTPUT)
    ] = False,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="Score by this metric, such as calibration; may be repeated. The rule's own by default.",
            rich_help_panel=SCORING,
        ),
    ] = None,
    temperature: Annotated[
        str,
        typer.Option(
            "--temperature",
            help="What scores are divided by before they are probabilities; auto learns it on validation classes.",
            rich_help_panel=SCORING,
        ),
    ] = "1",
    promise: Annotated[
        float | None,
        typer.Option(
            "--promise",
            min=0.0,
            max=1.0,
            help="With --rule strangers: at most this share of strangers accepted, chosen on validation classes.",
            rich_help_panel=SCORING,
        ),
    ] = None,
    conformal: Annotated[
        float | None,
        typer.Option(
            "--conformal",
            min=0.0,
            max=1.0,
            help="Sets of classes that miss the truth at most this often, chosen on validation classes.",
            rich_help_panel=SCORING,
        ),
    ] = None,
    out: Out = None,
    working: Working = Working(),
    profile: Profile = False,
    computing: Computing = Computing(),
    json: Json = False,
) -> None:
    """Evaluate a method on tasks; with --out a killed run goes on when started again.

    Examples:

    handful eval protonet world --ways 2-20 --shots 1-20 --tasks 600 -s schedule.steps=100

    handful eval model/ packed/photos --ways 5 --shots 1 --tasks 600 --out runs/model

    handful eval pair-protonet world:label=colour+glyph,mask=0.6,splits=0.5+0.25+0.25 --rule pairs -s schedule.steps=100

    handful eval eszsl packed/tiny --rule zero-shot --rule-set semantics=wordnet:glove.6B.100d.txt

    handful eval nearest-centroid world --rule strangers --promise 0.05 --temperature auto --conformal 0.1
    """
    in_order("eval", method, collection)

    from handful import registry
    from handful.data.opening import open_collection
    from handful.methods.contract import Method, agree
    from handful.options import parse_range
    from handful.runs import evaluate
    from handful.runs.learners import chosen, fits, learner_of, lessons, training
    from handful.runs.promises import Wanted

    for name in metric or ():
        registry.get("metrics", name)
    Wanted(temperature, promise, conformal)
    compute = computing.compute()
    where = working.start()
    found = chosen(method, parse_settings(setting), compute)
    source = open_collection(collection)
    drawn = drawing.rule_on(source, split or "test")
    drawn.check()
    if train_rule:
        registry.get("rules", train_rule)
    wanted = None if train_ways is None else parse_range(train_ways, "ways")
    with profiled(profile, out, where.workers):
        train = valid = None
        if isinstance(found, Method):
            agree(found, drawn)
            own = None
            if train_rule is not None:
                more = parse_settings(drawing.rule_set) if train_rule == drawing.rule else {}
                like = lessons(found, drawn, wanted)
                k, n, q = (getattr(like, name, None) for name in ("ways", "shots", "queries"))
                k, n = (None if value is None else str(value) for value in (k, n))
                own = rule_of(source, "train", drawing.scheme, train_rule, k, n, q, more)
            if not untrained or "images" not in drawn.shows:
                train, valid = training(found, drawn, wanted, rule=own)
        learner = learner_of(
            found, train=train, valid=valid, shape=source.card.shape, trained=not untrained, compute=compute
        )
        fits(learner, drawn)
        if save is not None:
            learner.save(save)
        run = evaluate(
            learner,
            drawn,
            int(getattr(drawn, "size", None) or 600) if tasks is None else tasks,
            seed,
            repeats=repeats,
            metrics=metric,
            temperature=temperature,
            promise=promise,
            conformal=conformal,
            out=out,
            engine=where,
            cache=not working.no_cache,
            answers=answers,
        )
    where.close()
    emit(run.as_dict()) if json else print(run)
