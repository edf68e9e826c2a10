"""Recipes: a paper's table as a TOML file; running one puts measured numbers beside the reported ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from handful import registry
from handful.data.collection import Collection
from handful.data.opening import open_collection
from handful.errors import BadInput, nearest
from handful.files import WRONG, parse_toml, read_text
from handful.methods.schedule import Schedule
from handful.nets.compute import Compute
from handful.registry import packaged
from handful.runs.engine import Engine, make_engine
from handful.runs.evaluate import evaluate
from handful.runs.filled import RecipeResult
from handful.runs.learners import choose_part
from handful.runs.matrix import Cell, Matrix, configured, fill, row_learner
from handful.runs.recipe_file import flatten
from handful.runs.run import Run
from handful.runs.shards import gathered
from handful.tasks.rule import Rule


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class RuleSpec(BaseModel):
    """A rule and the split it draws from; other keys are the rule's own options."""

    model_config = ConfigDict(extra="allow")

    rule: str = "n-way"
    split: str | None = None
    scheme: str | None = None

    def build(self, collection: Collection, split: str) -> Rule:
        part = choose_part(collection, self.split or split, self.scheme)
        return registry.make("rules", self.rule, self.model_extra, part)

    def merged(self, other: dict[str, Any]) -> RuleSpec:
        return RuleSpec(**{**self.model_dump(), **(self.model_extra or {}), **other})


class TestSpec(RuleSpec):
    __test__ = False
    label: str = "test"
    tasks: int = 600
    repeats: int = 1
    seed: int = 0
    metric: str | None = None


class MethodSpec(_Strict):
    name: str | None = None
    model: str | None = None
    label: str | None = None
    options: dict[str, Any] = Field(default_factory=dict)
    train: dict[str, Any] = Field(default_factory=dict)
    valid: dict[str, Any] = Field(default_factory=dict)
    trained: bool = True
    tests: list[str] = Field(default_factory=list)
    reported: dict[str, float | tuple[float, float]] = Field(default_factory=dict)

    @property
    def title(self) -> str:
        return self.label or self.name or self.model or "?"


class Recipe(_Strict):
    """A table to fill: collection, rules, methods, seeds, and what the paper reports."""

    title: str
    paper: str = ""
    table: str = ""
    note: str = ""
    collection: str = "world"
    reported_on: str = ""
    threads: int = 1
    seeds: list[int] = [0]
    train: RuleSpec | None = None
    valid: RuleSpec | None = None
    test: list[TestSpec] = Field(min_length=1)
    method: list[MethodSpec] = Field(min_length=1)


def read_recipe(name: str, scale: str | None = None, variants: Iterable[str] = ()) -> Recipe:
    """A recipe from a file, else a packaged name such as ``metacoco/table6``, at one of its scales.

    Parameters
    ----------
    scale
        One of the file's ``[scale.NAME]``; ``quick`` by default, or the file's first.
    variants
        Any of the file's ``[variant.NAME]``, such as ``words``.
    """
    try:
        facts = flatten(name, read_facts(name), scale, variants, read_facts)
    except WRONG as error:
        raise BadInput(f"{name}: a table stands where a value does, or a value where a table does ({error})") from error
    try:
        return Recipe(**facts)
    except ValidationError as error:
        raise BadInput(_explain(name, error)) from error


def read_facts(name: str) -> dict[str, Any]:
    """What a recipe's file says, before a scale is chosen."""
    path = Path(name)
    if path.is_file():
        text = _text(path)
    elif name in packaged():
        text = (resources.files("handful") / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
    else:
        raise BadInput(f"{name} is neither a file nor a packaged recipe; {nearest(name, packaged())}")
    try:
        return parse_toml(text)
    except ValueError as error:
        raise BadInput(f"{name} is not valid TOML: {error}") from error


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    except ValueError as error:
        raise BadInput(f"{path} is not a recipe: {error}") from error


def _explain(name: str, error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(p) for p in first["loc"])
    if first["type"] == "extra_forbidden":
        key = str(first["loc"][-1])
        model: type[BaseModel] = MethodSpec if first["loc"][0] == "method" else Recipe
        known = ", ".join(model.model_fields)
        return f"{name}: {place} is not a known key; {nearest(key, model.model_fields)} (known: {known})"
    return f"{name}: {place}: {first['msg'][0].lower() + first['msg'][1:]}"


def run_recipe(
    recipe: Recipe,
    *,
    collection: str | None = None,
    out: Path | None = None,
    compute: Compute | None = None,
    workers: int | None = None,
    engine: str | Engine | None = None,
    address: str | None = None,
    cache: bool = True,
    tasks: int | None = None,
    answers: bool = False,
    shard: tuple[int, int] | None = None,
    gather: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> RecipeResult:
    """Train and evaluate every method of a recipe; with ``out``, what is done already is not done again.

    Trainings and evaluations are spread over the engine's workers (see `evaluate` for ``workers``, ``engine``, ``address`` and
    ``cache``), which changes no number. ``answers`` keeps every answer beside each run's table. ``shard`` (k, n) does every n-th
    row of the table from the k-th on, so that n machines which share ``out`` fill it; ``gather`` then reads the whole of it.
    """
    if (shard or gather) and out is None:
        raise BadInput("shards of a table meet in a folder; name it with --out")
    if shard and gather:
        raise BadInput("--shard does a piece of the table and --gather reads all of it; give one of them")
    source = open_collection(collection or recipe.collection)
    compute = compute or Compute(threads=recipe.threads)
    for method in recipe.method:  # every name and option is checked before anything is trained
        if method.name:
            configured(method, 0)
    matrix = Matrix(recipe, source, compute, tasks, answers, cache, out, shard=shard or (1, 1))
    runs: dict[tuple[str, str, int], Run] = {}
    where = make_engine(engine, workers, address)
    try:
        if gather and out is not None:
            found = gathered(matrix, out)
        else:
            found = one_by_one(matrix, say) if where.workers == 1 and where.here else fill(matrix, where, out, say)
        for cell, run in found:
            for label in cell.labels:
                runs[(matrix.spec(cell.row).title, label, cell.row.seed)] = run
            if out and not shard:  # one shard knows the runs of the others as little as they know its own
                RecipeResult(recipe, source, runs).keep(out)
    finally:
        if where is not engine:
            where.close()
    return RecipeResult(recipe, source, in_order(matrix, runs))


def one_by_one(matrix: Matrix, say: Callable[[str], None]) -> Iterator[tuple[Cell, Run]]:
    """Every row trained and every cell filled in this process, in the table's order."""
    recipe, source, out = matrix.recipe, matrix.source, matrix.out
    for row in matrix.rows():
        method = matrix.spec(row)
        say(f"{method.title}, training seed {row.seed}")
        keep = out / "models" / row.key if out else None
        learner = row_learner(recipe, method, row.seed, source, matrix.compute, keep)
        for cell in matrix.cells(row):
            test = matrix.test(cell)
            run = evaluate(
                learner,
                test.build(source, "test"),
                matrix.tasks or test.tasks,
                test.seed,
                repeats=test.repeats,
                out=matrix.place(cell, out) if out else None,
                engine="inline",
                cache=matrix.cache,
                answers=matrix.answers,
            )
            yield cell, run


def in_order(matrix: Matrix, runs: dict[tuple[str, str, int], Run]) -> dict[tuple[str, str, int], Run]:
    """Runs in the table's order, in whatever order they were done."""
    order = [
        (matrix.spec(row).title, label, row.seed)
        for row in matrix.rows()
        for cell in matrix.cells(row)
        for label in cell.labels
    ]
    return {key: runs[key] for key in order}


def shortened(recipe: Recipe, steps: int) -> Recipe:
    """The same recipe with at most so many steps in every stage of training, to see it run before it is run for long."""
    if steps < 1:
        raise BadInput(f"steps must be at least 1, not {steps}")
    methods = []
    for method in recipe.method:
        options = dict(method.options)
        if method.name:
            built = configured(method, 0)
            for field in dataclasses.fields(built):
                stage = getattr(built, field.name)
                if isinstance(stage, Schedule):
                    fewer = {k: min(steps, getattr(stage, k)) for k in ("steps", "validate_every", "validate_tasks")}
                    options[field.name] = {**options.get(field.name, {}), **fewer}
        methods.append(method.model_copy(update={"options": options}))
    return recipe.model_copy(update={"method": methods})
