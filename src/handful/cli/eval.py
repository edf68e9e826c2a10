"""handful eval"""

from __future__ import annotations

from typing import Annotated

import typer

from handful.cli.options import (
    Address,
    BatchSize,
    Device,
    EngineName,
    Json,
    NoCache,
    Out,
    Precision,
    Profile,
    Queries,
    RuleName,
    RuleSet,
    Scheme,
    Seed,
    Set,
    Shots,
    Split,
    Tasks,
    Threads,
    Ways,
    Workers,
    compute_of,
    emit,
    parse_settings,
    profiled,
    rule_of,
)

app = typer.Typer(add_completion=False)


@app.command("eval")
def evaluate_(
    method: Annotated[
        str, typer.Argument(help="Method by name (trained on the train split if it trains), or a model folder.")
    ],
    collection: Annotated[str, typer.Argument(help="Packed folder, world:..., or a folder of images.")],
    ways: Ways = "5",
    shots: Shots = "5",
    queries: Queries = 15,
    tasks: Tasks = 600,
    seed: Seed = 0,
    repeats: Annotated[int, typer.Option("--repeats", help="Drawing seeds, counted up from --seed.")] = 1,
    rule: RuleName = None,
    rule_set: RuleSet = None,
    split: Split = None,
    scheme: Scheme = None,
    setting: Set = None,
    train_rule: Annotated[str | None, typer.Option("--train-rule", help="Rule of the training tasks.")] = None,
    train_ways: Annotated[
        str | None, typer.Option("--train-ways", help="Ways of the training tasks, as the test's by default.")
    ] = None,
    untrained: Annotated[bool, typer.Option("--untrained", help="Skip meta-training.")] = False,
    answers: Annotated[bool, typer.Option("--answers", help="Keep every answer beside the table.")] = False,
    out: Out = None,
    workers: Workers = None,
    engine: EngineName = None,
    address: Address = None,
    no_cache: NoCache = False,
    profile: Profile = False,
    device: Device = "cpu",
    precision: Precision = "float32",
    batch: BatchSize = 64,
    threads: Threads = 1,
    json: Json = False,
) -> None:
    """Evaluate on tasks; with --out a killed run goes on when started again.

    Example: handful eval protonet world --ways 2-20 --shots 1-20 --tasks 600 -s schedule.steps=100
    """
    from handful.data.opening import open_collection
    from handful.methods.contract import Method, agree
    from handful.options import parse_range
    from handful.runs import evaluate
    from handful.runs.engine import make_engine
    from handful.runs.learners import chosen, learner_of

    compute = compute_of(device, precision, batch, threads)
    where = make_engine(engine, workers, address)
    found = chosen(method, parse_settings(setting), compute)
    source = open_collection(collection)
    drawn = rule_of(source, split or "test", scheme, rule, ways, shots, queries, parse_settings(rule_set))
    drawn.check()
    with profiled(profile, out, where.workers):
        train = None
        if isinstance(found, Method):
            agree(found, drawn)
            if found.trains != "no" and not untrained:
                top = parse_range(train_ways or ways, "ways")
                fixed = str(max(2, top if isinstance(top, int) else min(5, top[1])))
                few = parse_range(shots, "shots")
                k = str(few if isinstance(few, int) else min(5, few[1]))
                like = train_rule or ("n-way" if found.axes == 1 else rule)
                own = parse_settings(rule_set) if like == rule else {}
                train = rule_of(source, "train", scheme, like, fixed, k, min(queries, 15), own)
        learner = learner_of(found, train=train, shape=source.card.shape, trained=not untrained, compute=compute)
        run = evaluate(
            learner,
            drawn,
            tasks,
            seed,
            repeats=repeats,
            out=out,
            engine=where,
            cache=not no_cache,
            answers=answers,
        )
    where.close()
    emit(run.as_dict()) if json else print(run)
