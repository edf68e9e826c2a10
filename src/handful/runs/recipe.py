"""Recipes: a paper's table as a TOML file; running one puts measured numbers beside the reported ones."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from handful import registry
from handful.data.collection import Collection, Part
from handful.data.opening import open_collection
from handful.errors import BadInput, nearest
from handful.methods.contract import Learner, agree, load, make
from handful.nets.compute import Compute
from handful.runs.evaluate import evaluate
from handful.runs.run import Run
from handful.runs.store import digest
from handful.tasks.make import make_rule
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
        return make_rule(self.rule, part, **(self.model_extra or {}))

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


def packaged() -> list[str]:
    """Names of the recipes that come with the library."""
    root = resources.files("handful") / "recipes"
    found = []
    for folder in sorted(root.iterdir(), key=lambda p: p.name):
        if folder.is_dir():
            found += [
                f"{folder.name}/{f.name[:-5]}"
                for f in sorted(folder.iterdir(), key=lambda p: p.name)
                if f.name.endswith(".toml")
            ]
    return found


def read_recipe(name: str) -> Recipe:
    """A recipe from a file, else a packaged name such as ``metacoco/table6``."""
    path = Path(name)
    if path.is_file():
        text = _text(path)
    elif name in packaged():
        text = (resources.files("handful") / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
    else:
        raise BadInput(f"{name} is neither a file nor a packaged recipe; {nearest(name, packaged())}")
    try:
        facts = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{name} is not valid TOML: {error}") from error
    try:
        return Recipe(**facts)
    except ValidationError as error:
        raise BadInput(_explain(name, error)) from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error


def _explain(name: str, error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(p) for p in first["loc"])
    if first["type"] == "extra_forbidden":
        key = str(first["loc"][-1])
        model: type[BaseModel] = MethodSpec if first["loc"][0] == "method" else Recipe
        known = ", ".join(model.model_fields)
        return f"{name}: {place} is not a known key; {nearest(key, model.model_fields)} (known: {known})"
    return f"{name}: {place}: {first['msg'][0].lower() + first['msg'][1:]}"


def choose_part(collection: Collection, split: str, scheme: str | None) -> Part:
    """The named split; a collection without splits serves whole, so that a folder of photos can be evaluated."""
    if split == "all" or (not collection.card.schemes and split == "test"):
        return collection.whole
    return collection.part(split, scheme)


@dataclass
class RecipeResult:
    """The filled table: one row a method and test, reported beside measured."""

    recipe: Recipe
    collection: Collection
    runs: dict[tuple[str, str, int], Run]

    @property
    def frame(self) -> pl.DataFrame:
        import numpy as np

        from handful.metrics import mean_interval

        rows = []
        for method in self.recipe.method:
            for test in self.recipe.test:
                runs = [
                    self.runs[key] for s in self.recipe.seeds if (key := (method.title, test.label, s)) in self.runs
                ]
                if not runs:
                    continue
                estimates = [r.estimate(test.metric) for r in runs]
                estimate = (
                    estimates[0]
                    if len(runs) == 1
                    else mean_interval(np.asarray([e.value for e in estimates]), "training seeds")
                )
                reported = method.reported.get(test.label)
                value, half = (
                    (reported if isinstance(reported, tuple) else (reported, None))
                    if reported is not None
                    else (None, None)
                )
                rows.append(
                    {
                        "method": method.title,
                        "test": test.label,
                        "metric": test.metric or runs[0].main,
                        "measured": 100 * estimate.value,
                        "half": 100 * estimate.half,
                        "over": estimate.over,
                        "n": estimate.n,
                        "reported": value,
                        "reported_half": half,
                    }
                )
        return pl.DataFrame(rows, infer_schema_length=None)


def run_recipe(
    recipe: Recipe,
    *,
    collection: str | None = None,
    out: Path | None = None,
    compute: Compute | None = None,
    workers: int = 1,
    tasks: int | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> RecipeResult:
    """Train and evaluate every method of a recipe; with ``out``, what is done already is not done again."""
    source = open_collection(collection or recipe.collection)
    compute = compute or Compute(threads=recipe.threads)
    for method in recipe.method:  # every name and option is checked before anything is trained
        if method.name:
            configured(method, 0)
    runs: dict[tuple[str, str, int], Run] = {}
    for method in recipe.method:
        for seed in recipe.seeds:
            say(f"{method.title}, training seed {seed}")
            key = digest([source.id, method.model_dump(), recipe.train and recipe.train.model_dump(), seed])
            keep = out / "models" / key if out else None
            learner = learner_of(recipe, method, seed, source, compute, keep)
            drawn: dict[str, Run] = {}  # columns that differ by metric only are one run
            for test in recipe.test:
                if method.tests and test.label not in method.tests:
                    continue
                same = digest([test.model_dump(exclude={"label", "metric"})])
                if same in drawn:
                    runs[(method.title, test.label, seed)] = drawn[same]
                    continue
                rule = test.build(source, "test")
                agree(learner.method, rule)
                place = out / "runs" / key / digest([test.model_dump()]) if out else None
                run = evaluate(
                    learner,
                    rule,
                    tasks or test.tasks,
                    test.seed,
                    repeats=test.repeats,
                    out=place,
                    workers=workers,
                )
                runs[(method.title, test.label, seed)] = drawn[same] = run
    return RecipeResult(recipe, source, runs)


def configured(method: MethodSpec, seed: int) -> Any:
    """The method of a row, its training seed set."""
    options = dict(method.options)
    cls = registry.get("methods", str(method.name))
    if "schedule" in getattr(cls, "__dataclass_fields__", {}):
        schedule = dict(options.get("schedule", {}))
        schedule.setdefault("seed", seed)
        options["schedule"] = schedule
    return make(str(method.name), **options)


def learner_of(
    recipe: Recipe, spec: MethodSpec, seed: int, source: Collection, compute: Compute, keep: Path | None
) -> Learner:
    if spec.model:
        return load(spec.model, compute)
    if keep is not None and (keep / "model.json").is_file():
        return load(keep, compute)
    method = configured(spec, seed)
    train = valid = None
    if recipe.train is not None:
        train = recipe.train.merged(spec.train).build(source, "train")
    if recipe.valid is not None and source.has("valid"):
        valid = recipe.valid.merged(spec.valid).build(source, "valid")
    if not spec.trained or (method.trains == "no" and train is None):
        return method.untrained(source.card.shape, train.n_classes if train else 2, compute)
    learner = method.meta_fit(train, valid, compute=compute, keep=keep.with_suffix(".training") if keep else None)
    if keep is not None:
        learner.save(keep)
    return learner
