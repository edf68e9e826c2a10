"""Options that several verbs share, and how their plain values become things."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.errors import BadInput

Ways = Annotated[str, typer.Option("--ways", help="Classes a task: 5, or a range 2-20.")]
Shots = Annotated[str, typer.Option("--shots", help="Support images a class: 5, or a range 1-20.")]
Queries = Annotated[int, typer.Option("--queries", help="Query images a class.")]
Tasks = Annotated[int, typer.Option("--tasks", "--n", help="How many tasks.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the drawing.")]
Split = Annotated[
    str | None, typer.Option("--split", help="Split to draw from (test, or everything if there are none).")
]
Scheme = Annotated[str | None, typer.Option("--scheme", help="Split scheme, if the collection has several.")]
RuleName = Annotated[
    str | None, typer.Option("--rule", help="Rule by name (handful ls rules); n-way or any-way by default.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", "-s", help="Option of the method, key=value (net=resnet12, schedule.steps=500)."),
]
RuleSet = Annotated[list[str] | None, typer.Option("--rule-set", help="Further option of the rule, key=value.")]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, mps.")]
Precision = Annotated[str, typer.Option("--precision", help="float32, bfloat16 or float16.")]
BatchSize = Annotated[int, typer.Option("--batch", help="Images a batch when embedding.")]
Threads = Annotated[int, typer.Option("--threads", help="Threads of this process.")]
Workers = Annotated[int, typer.Option("--workers", help="Worker processes (one thread each).")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the results.")]


def parse_settings(items: list[str] | None) -> dict[str, Any]:
    """``key=value`` pairs; values are Python literals where they look like one, else text."""
    out: dict[str, Any] = {}
    for item in items or []:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise BadInput(f"{item!r} is not key=value; write for example net=resnet12")
        try:
            out[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            out[key] = {"true": True, "false": False}.get(value.lower(), value)
    return out


def compute_of(device: str, precision: str, batch: int, threads: int) -> Any:
    from handful.nets.compute import Compute

    return Compute(device=device, precision=precision, batch=batch, threads=threads)  # type: ignore[arg-type]


def rule_of(
    collection: Any,
    split: str,
    scheme: str | None,
    name: str | None,
    ways: str | None,
    shots: str | None,
    queries: int | None,
    more: dict[str, Any],
) -> Any:
    """The rule that the options describe; ranges or several data sets make it any-way unless it is named."""
    from handful.runs.recipe import choose_part
    from handful.tasks.make import make_rule, parse_range

    part = choose_part(collection, split, scheme)
    ranged = "-" in str(ways) or "-" in str(shots)
    name = name or ("any-way" if ranged or "dataset" in collection.table.columns else "n-way")
    options: dict[str, Any] = dict(more)
    if ways is not None:
        options.setdefault("ways", parse_range(ways, "ways"))
    if shots is not None:
        options.setdefault("shots", parse_range(shots, "shots"))
    if queries is not None:
        options.setdefault("queries", queries)
    return wrap(name, part, options, make_rule)


def wrap(name: str, part: Any, options: dict[str, Any], make_rule: Any) -> Any:
    """A rule that wraps another passes ways, shots and queries on to the rule inside."""
    import dataclasses

    from handful import registry

    known = {f.name for f in dataclasses.fields(registry.get("rules", name))}
    if "of" in known and "of" not in options:
        inner = {k: options.pop(k) for k in ("ways", "shots", "queries") if k in options}
        ranged = any(isinstance(v, tuple) for v in inner.values())
        options["of"] = {"rule": "any-way" if ranged else "n-way", **inner}
    return make_rule(name, part, **options)


def emit(facts: Any) -> None:
    """One JSON object on stdout."""
    print(json.dumps(facts, ensure_ascii=False, default=str))
