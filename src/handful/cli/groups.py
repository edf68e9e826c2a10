"""Options that come together: a frozen dataclass of them is one parameter of a verb and as many options on the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from handful.cli.options import (
    WORK,
    As,
    Queries,
    RuleName,
    RuleSet,
    Scheme,
    Settings,
    Shots,
    Ways,
    parse_settings,
    rule_of,
)

if TYPE_CHECKING:
    from handful.nets.compute import Compute

Verb = TypeVar("Verb", bound=Callable[..., Any])


def spread(verb: Verb) -> Verb:
    """A verb whose parameters that default to a group become that group's options; the group's values are their defaults."""
    hints = get_type_hints(verb, include_extras=True)
    options: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for name, parameter in inspect.signature(verb).parameters.items():
        if not is_dataclass(parameter.default):
            options.append(parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY))
            continue
        groups[name] = given = parameter.default
        kinds = get_type_hints(type(given), include_extras=True)
        options += [
            inspect.Parameter(f.name, parameter.KEYWORD_ONLY, default=getattr(given, f.name), annotation=kinds[f.name])
            for f in fields(given)
        ]

    def called(**values: Any) -> Any:
        for name, given in groups.items():
            values[name] = type(given)(**{f.name: values.pop(f.name) for f in fields(given)})
        return verb(**values)

    called.__name__, called.__doc__, called.__module__ = verb.__name__, verb.__doc__, verb.__module__
    called.__annotations__ = {p.name: p.annotation for p in options}
    called.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return called  # type: ignore[return-value]


@dataclass(frozen=True, kw_only=True)
class Computing:
    """How tensors are computed. A field of `handful.nets.compute.Compute` that is also one here is an option of every verb that computes."""

    device: Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1 or mps.", rich_help_panel=WORK)] = "cpu"
    precision: Annotated[
        str,
        typer.Option(
            "--precision",
            help="float32, bfloat16, float16, or auto: bfloat16 in evaluations where no mean moves by more than 0.001.",
            rich_help_panel=WORK,
        ),
    ] = "float32"
    batch: Annotated[
        int, typer.Option("--batch", help="Number of images embedded at a time.", rich_help_panel=WORK)
    ] = 64
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            help="Threads within one operation, 1 by default (or the recipe's); more change last bits. Every core is used with 1 too.",
            rich_help_panel=WORK,
        ),
    ] = None

    def compute(self, **otherwise: Any) -> Compute:
        """What the options say, and ``otherwise`` where they say nothing."""
        from handful.nets.compute import Compute

        return Compute(**otherwise | {name: value for name, value in vars(self).items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class Working:
    """Where the chunks of tasks run."""

    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            help="Number of processes that share the chunks of tasks (or cells of a recipe); by default every core is used.",
            rich_help_panel=WORK,
        ),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", help="cores (the default), inline, processes or ray; changes no number.", rich_help_panel=WORK
        ),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            "--address", help="Ray cluster: auto, or HOST:PORT; without it one is started here.", rich_help_panel=WORK
        ),
    ] = None
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Embed every image anew, and keep no features.", rich_help_panel=WORK)
    ] = False

    def start(self) -> Any:
        """The engine that the options name."""
        from handful.runs.engine import make_engine

        return make_engine(self.engine, self.workers, self.address)


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """The rule that draws tasks from a collection."""

    ways: Ways = "5"
    shots: Shots = "5"
    queries: Queries = 15
    rule: RuleName = None
    rule_set: RuleSet = None
    scheme: Scheme = None

    def rule_on(self, collection: Any, split: str) -> Any:
        """The rule, on a split of a collection."""
        more = parse_settings(self.rule_set)
        return rule_of(collection, split, self.scheme, self.rule, self.ways, self.shots, self.queries, more)


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the labels of photos are read."""

    layout: As = "auto"
    settings: Settings = None

    def options(self) -> dict[str, Any]:
        """The importer's options by name."""
        return parse_settings(self.settings)
