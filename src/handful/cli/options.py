"""Options that several verbs share, and how their plain values become things."""

from __future__ import annotations

import ast
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from handful.errors import BadInput

TASKS, TRAINING, WORK, OUTPUT = "Tasks", "Method and training", "Where the work runs", "Output"
SCORING = "Scoring"
SEEING, READING = "How images are seen", "How files are read"
"""Groups of options in ``--help``, the same in every verb."""

Ways = Annotated[
    str,
    typer.Option("--ways", help="Number of classes in each task: 5, or a range such as 2-20.", rich_help_panel=TASKS),
]
Shots = Annotated[
    str,
    typer.Option(
        "--shots",
        help="Number of support images of each class: 5, or a range such as 1-20.",
        rich_help_panel=TASKS,
    ),
]
Queries = Annotated[int, typer.Option("--queries", help="Number of query images of each class.", rich_help_panel=TASKS)]
Tasks = Annotated[int, typer.Option("--tasks", "--n", min=1, help="Number of tasks.", rich_help_panel=TASKS)]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        help="Seed of all that is drawn at random; a training has its own (-s schedule.seed=1).",
        rich_help_panel=TASKS,
    ),
]
Split = Annotated[
    str | None,
    typer.Option("--split", help="Split to draw from (test, or everything if there are none).", rich_help_panel=TASKS),
]
Scheme = Annotated[
    str | None,
    typer.Option("--scheme", help="Split scheme, if the collection has several.", rich_help_panel=TASKS),
]
RuleName = Annotated[
    str | None,
    typer.Option("--rule", help="Rule by name (handful ls rules); n-way or any-way by default.", rich_help_panel=TASKS),
]
RuleSet = Annotated[
    list[str] | None,
    typer.Option("--rule-set", help="Further option of the rule, key=value; may be repeated.", rich_help_panel=TASKS),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        help="Option of the method, key=value (net=resnet12, schedule.steps=500); may be repeated.",
        rich_help_panel=TRAINING,
    ),
]
As = Annotated[
    str,
    typer.Option(
        "--as",
        help="Layout: folders, meta-album, concept-context, omniglot, csv, ... (handful ls importers).",
        rich_help_panel=READING,
    ),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", "-s", help="Option of the importer, key=value.", rich_help_panel=READING)
]
Profile = Annotated[
    bool,
    typer.Option("--profile", help="Write where the time went to profile.json, and print it.", rich_help_panel=OUTPUT),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=OUTPUT)]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the results.", rich_help_panel=OUTPUT)]


def usable_folder(out: Path | None, option: str = "--out") -> None:
    """Refuse, before any work, to write into a place that is a file or below one."""
    for place in () if out is None else (out, *out.parents):
        if place.exists() and not place.is_dir():
            raise BadInput(f"{option} {out} cannot be a folder: {place} is a file; name another place")


def must_end(place: Path | None, option: str, *endings: str) -> None:
    """Refuse, before any work, a file whose name promises another kind than is written."""
    if place is not None and place.is_dir():
        raise BadInput(f"{option} {place} is a folder; name a file")
    if place is not None and not place.name.lower().endswith(endings):
        raise BadInput(f"{option} {place} does not end in {' or '.join(endings)}, which is what is written; rename it")
    for above in () if place is None else place.parents:
        if above.exists() and not above.is_dir():
            raise BadInput(f"{option} {place} cannot be written: {above} is a file; name another place")


def in_order(verb: str, method: str, collection: str) -> None:
    """Say so where the method and the collection have changed places."""
    from handful import registry

    if method not in registry.table("methods") and collection in registry.table("methods"):
        raise BadInput(f"the method comes first: handful {verb} {collection} {method}")


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


@contextmanager
def profiled(wanted: bool, folder: Path | None, processes: int | None = 1) -> Iterator[None]:
    """With ``--profile``: what the block spent, in ``profile.json`` (in the folder of the results, or here) and on stderr."""
    if not wanted:
        yield
        return
    from handful.clock import measuring, profile, profile_text
    from handful.cores import cores
    from handful.files import write_atomically

    start = time.monotonic()
    with measuring() as clock:
        yield
    facts = profile(clock.seconds, time.monotonic() - start, processes or cores())
    text = json.dumps(facts, indent=1) + "\n"
    write_atomically((folder or Path()) / "profile.json", lambda t: t.write_text(text, encoding="utf-8"))
    print(profile_text(facts), file=sys.stderr)


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
    import dataclasses

    from handful import registry
    from handful.options import parse_range
    from handful.runs.learners import choose_part

    part = choose_part(collection, split, scheme)
    ranged = "-" in str(ways) or "-" in str(shots)
    # A rule that is named asks its own number of queries (pairs: 5), unless the user asks for another.
    if name is not None and not _asked("queries"):
        queries = None
    name = name or ("any-way" if ranged or "dataset" in collection.table.columns else "n-way")
    options: dict[str, Any] = dict(more)
    if ways is not None and _applies("ways", name):
        options.setdefault("ways", parse_range(ways, "ways"))
    if shots is not None and _applies("shots", name):
        options.setdefault("shots", parse_range(shots, "shots"))
    if queries is not None and _applies("queries", name):
        options.setdefault("queries", queries)
    if "semantics" in {f.name for f in dataclasses.fields(registry.get("rules", name))}:
        options.setdefault("semantics", semantics_of(None, collection))
    return wrap(name, part, options)


def semantics_of(spec: str | None, source: Any) -> str:
    """What describes the classes: what is named; else what the collection carries; else its label columns."""
    if spec is not None:
        return spec
    return "stored" if source.path is not None and (source.path / "descriptions.npz").is_file() else "factors"


def _asked(option: str) -> bool:
    """Whether the user gave the option; also true where there is no command line."""
    # Newer versions of typer carry a click of their own, whose contexts the package click does not know.
    current: Any = getattr(typer.main, "get_current_context", None)
    if current is None:
        from click import get_current_context as current
    context = current(silent=True)
    source = None if context is None else context.get_parameter_source(option)
    return source is None or source.name != "DEFAULT"


def _applies(option: str, rule: str) -> bool:
    """A default of the command line is not pressed on a rule without such an option, nor on one that draws its own shots."""
    import dataclasses

    from handful import registry

    if _asked(option):
        return True
    known = {f.name for f in dataclasses.fields(registry.get("rules", rule))}
    return "of" in known or (option in known and "shots" in known)


def wrap(name: str, part: Any, options: dict[str, Any]) -> Any:
    """A rule that wraps another passes ways, shots and queries on to the rule inside."""
    import dataclasses

    from handful import registry
    from handful.options import unfolded

    known = {f.name for f in dataclasses.fields(registry.get("rules", name))}
    if "of" in known:
        # of=any-way and of.ways=2-4 may stand beside each other.
        options = unfolded({"of.rule" if k == "of" and isinstance(v, str) else k: v for k, v in options.items()})
        own = dict(options.get("of", {}))
        inner = {k: options.pop(k) for k in ("ways", "shots", "queries") if k in options}
        ranged = any(isinstance(v, tuple) or "-" in str(v) for v in {**inner, **own}.values() if v != own.get("rule"))
        inside = own.setdefault("rule", "any-way" if ranged else "n-way")
        has = {f.name for f in dataclasses.fields(registry.get("rules", inside))}
        # A default of the command line goes only to a rule that has such an option; what the user asks for always does.
        inner = {k: v for k, v in inner.items() if k in has or _asked(k)}
        options["of"] = {**inner, **own}
    return registry.make("rules", name, options, part)


def emit(facts: Any) -> None:
    """One JSON object on stdout."""
    print(json.dumps(facts, ensure_ascii=False, default=str))
