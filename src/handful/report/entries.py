"""What a report is made of: runs with a label each, from objects, run folders, recipes' folders, or folders of these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from handful.errors import BadInput
from handful.files import WRONG, read_json
from handful.runs import Run
from handful.runs.filled import RecipeResult
from handful.runs.run import marked

Reported = tuple[float | None, float | None]


@dataclass(frozen=True)
class RunEntry:
    """One run under the name of its method; entries of one label on the same tasks are training seeds of one method."""

    label: str
    run: Run
    test: str = ""
    metric: str | None = None
    reported: Reported = (None, None)
    named: bool = False


Source = Run | RunEntry | RecipeResult | str | Path


@dataclass
class Gathered:
    """All entries, the recipes they came from, and what was left out and why."""

    entries: list[RunEntry] = field(default_factory=list)
    recipes: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def gather(sources: Iterable[Source] | Mapping[str, Source] | Source) -> Gathered:
    """Entries of everything given; a mapping's keys are the labels."""
    found = Gathered()
    if isinstance(sources, (Run, RunEntry, RecipeResult, str, Path)):
        sources = [sources]
    pairs = sources.items() if isinstance(sources, Mapping) else [(None, s) for s in sources]
    for label, source in pairs:
        _add(found, label, source)
    if not found.entries:
        why = f" ({found.left_out[0]})" if found.left_out else ""
        raise BadInput(f"there is no finished run to report{why}; make one with: handful eval ... --out FOLDER")
    apart = _told_apart(_once(found.entries))
    found.entries = [replace(e, label=marked(e.label, e.run.transductive)) for e in apart]
    return found


def _add(found: Gathered, label: str | None, source: Source) -> None:
    if isinstance(source, Run):
        found.entries.append(RunEntry(label or source.method, source, named=label is not None))
        return
    if isinstance(source, RunEntry):
        found.entries.append(source)
        return
    if isinstance(source, RecipeResult):
        _add_result(found, source)
        return
    path = Path(source)
    if not path.exists() and "=" in str(source):
        name, _, rest = str(source).partition("=")
        label, path = name, Path(rest)
    if (path / "recipe.json").is_file():
        _add_recipe(found, path)
    elif (path / "run.json").is_file():
        _add(found, label, Run.open(path))
    elif path.is_dir() and (inside := sorted(path.glob("*/**/run.json"))):
        for place in inside:
            try:
                run = Run.open(place.parent)
            except BadInput as error:
                found.left_out.append(str(error))
                continue
            _add(found, label, run)
    else:
        raise BadInput(
            f"{path} is neither a run's folder nor a recipe's (it has no run.json and no recipe.json); "
            f"make one with: handful eval ... --out {path}"
        )


def _add_result(found: Gathered, result: RecipeResult) -> None:
    recipe = result.recipe
    reported = {m.title: m.reported for m in recipe.method}
    metrics = {t.label: t.metric for t in recipe.test}
    for (method, test, _seed), run in result.runs.items():
        value = reported[method].get(test)
        pair: Reported = value if isinstance(value, tuple) else (value, None)
        found.entries.append(RunEntry(method, run, test, metrics[test], pair, named=True))
    facts = {k: getattr(recipe, k) for k in ("title", "paper", "table", "note", "reported_on")}
    found.recipes.append({**facts, "collection": result.collection.id})


def _add_recipe(found: Gathered, path: Path) -> None:
    file = path / "recipe.json"
    try:
        facts = read_json(file)
        cells = facts.pop("cells")
        for cell in cells:
            run = Run.open(path / cell["run"])
            value, half = cell["reported"]
            found.entries.append(RunEntry(cell["method"], run, cell["test"], cell["metric"], (value, half), named=True))
        found.recipes.append(
            {k: str(facts[k]) for k in ("title", "paper", "table", "note", "reported_on", "collection")}
        )
    except (OSError, *WRONG) as error:
        raise BadInput(f"{file} is damaged ({error}); run the recipe again with the same --out") from error


def _once(entries: list[RunEntry]) -> list[RunEntry]:
    """The same run given twice counts once."""
    seen: set[Any] = set()
    out = []
    for entry in entries:
        place = str(entry.run.path.resolve()) if entry.run.path else id(entry.run)
        key = (place, entry.label, entry.test)
        if key not in seen:
            seen.add(key)
            out.append(entry)
    return out


def _told_apart(entries: list[RunEntry]) -> list[RunEntry]:
    """Runs that share a method's name and tasks, and were not named by a person, get what differs added to the name.

    Runs that differ in a training seed alone keep one name: they are one method, trained several times.
    """
    out = list(entries)
    groups: dict[tuple[str, str], list[int]] = {}
    for i, entry in enumerate(entries):
        if not entry.named:
            groups.setdefault((entry.run.identity["tasks_id"], entry.label), []).append(i)
    for (_, label), numbers in groups.items():
        if len(numbers) < 2:
            continue
        options = [flat(entries[i].run.identity.get("options", {})) for i in numbers]
        keys = sorted({k for o in options for k in o if any(other.get(k) != o[k] for other in options)})
        seeds = [k for k in keys if k.rpartition(".")[2] == "seed"]
        names = [", ".join(f"{k}={o.get(k)}" for k in keys if k not in seeds) for o in options]
        trained = [(name, *(o.get(k) for k in seeds)) for name, o in zip(names, options, strict=True)]
        if len(set(trained)) < len(trained):
            paths = [entries[i].run.path for i in numbers]
            names = [p.name if p else str(at + 1) for at, p in enumerate(paths)]
            if len(set(names)) < len(names):
                names = [f"{name} {at + 1}" for at, name in enumerate(names)]
        for i, name in zip(numbers, names, strict=True):
            out[i] = replace(entries[i], label=f"{label} ({name})" if name else label)
    return out


def flat(options: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested options under dotted names."""
    out: dict[str, Any] = {}
    for key, value in options.items():
        if isinstance(value, Mapping):
            out.update(flat(value, f"{before}{key}."))
        else:
            out[before + key] = value
    return out
