"""A recipe's matrix, methods x benchmarks x seeds, on an engine: trainings first, then evaluations, one bar for all."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from handful.clock import add, measuring
from handful.data.collection import Collection
from handful.files import fresh_folder
from handful.methods.contract import FACTS, Learner, Method, agree, load
from handful.nets.building import own
from handful.nets.compute import Compute
from handful.progress import bar
from handful.runs.engine import Engine
from handful.runs.evaluate import evaluate
from handful.runs.learners import learner_of, named
from handful.runs.run import Run
from handful.runs.store import RunFolder, digest

if TYPE_CHECKING:
    from handful.runs.recipe import MethodSpec, Recipe, TestSpec

Place = tuple[str, str, int]


class Folder:
    """A saved model that a context needs; on another node, the folder that its files arrived in."""

    def __init__(self, path: Path):
        self.path = path


@dataclass(frozen=True)
class MatrixRow:
    """One training: a method under a training seed."""

    method: int
    seed: int
    key: str


@dataclass(frozen=True)
class Cell:
    """One evaluation: a row under a test; ``labels`` are the columns that it fills."""

    row: MatrixRow
    test: int
    labels: tuple[str, ...]


@dataclass
class Matrix:
    """What every training and every evaluation of a recipe needs; ``out`` only where workers see this machine's files.

    Of several machines that share the work, the one with ``shard`` (k, n) has every n-th row from the k-th on, so that each
    row is trained once.
    """

    recipe: Recipe
    source: Collection
    compute: Compute
    tasks: int | None
    answers: bool
    cache: bool
    out: Path | None
    models: dict[str, Folder] = field(default_factory=dict)
    shard: tuple[int, int] = (1, 1)

    @property
    def threads(self) -> int:
        return self.compute.threads

    @property
    def gpus(self) -> int:
        return int(torch.device(self.compute.device).type == "cuda")

    def row(self, method: int, seed: int) -> MatrixRow:
        train = self.recipe.train and self.recipe.train.model_dump()
        return MatrixRow(method, seed, digest([self.source.id, self.recipe.method[method].model_dump(), train, seed]))

    def rows(self) -> list[MatrixRow]:
        rows = [self.row(m, seed) for m in range(len(self.recipe.method)) for seed in self.recipe.seeds]
        return rows[self.shard[0] - 1 :: self.shard[1]]

    def cells(self, row: MatrixRow) -> list[Cell]:
        """The evaluations of a row; tests that differ by label and metric alone are one."""
        alike: dict[str, tuple[int, list[str]]] = {}
        wanted = self.recipe.method[row.method].tests
        for i, test in enumerate(self.recipe.test):
            if not wanted or test.label in wanted:
                same = digest([test.model_dump(exclude={"label", "metric"})])
                alike.setdefault(same, (i, []))[1].append(test.label)
        return [Cell(row, i, tuple(labels)) for i, labels in alike.values()]

    def place(self, cell: Cell, out: Path) -> Path:
        test = self.recipe.test[cell.test]
        name = digest([test.model_dump(), *(["answers"] if self.answers else [])])
        return out / "runs" / cell.row.key / name

    def spec(self, row: MatrixRow) -> MethodSpec:
        return self.recipe.method[row.method]

    def test(self, cell: Cell) -> TestSpec:
        return self.recipe.test[cell.test]


def configured(method: MethodSpec, seed: int) -> Method:
    """The method of a row, its training seed set."""
    return named(str(method.name), method.options, seed)


def row_learner(
    recipe: Recipe, spec: MethodSpec, seed: int, source: Collection, compute: Compute, keep: Path | None
) -> Learner:
    """The learner of a row, trained on the recipe's own tasks."""
    if spec.model:
        return load(spec.model, compute)
    train = recipe.train.merged(spec.train).build(source, "train") if recipe.train is not None else None
    valid = None
    if recipe.valid is not None and source.has("valid"):
        valid = recipe.valid.merged(spec.valid).build(source, "valid")
    return learner_of(
        configured(spec, seed),
        train=train,
        valid=valid,
        shape=source.card.shape,
        trained=spec.trained,
        compute=compute,
        keep=keep,
    )


def train_row(matrix: Matrix, row: MatrixRow) -> tuple[MatrixRow, dict[str, bytes], dict[str, float]]:
    """Train one row; its model stays in ``matrix.out`` if that is seen here, else its files go back to the sender."""
    with measuring() as clock, tempfile.TemporaryDirectory(prefix="handful-") as scratch:
        keep = (matrix.out or Path(scratch)) / "models" / row.key
        row_learner(matrix.recipe, matrix.spec(row), row.seed, matrix.source, matrix.compute, keep)
        files = {} if matrix.out else {p.name: p.read_bytes() for p in keep.iterdir() if p.is_file()}
    return row, files, dict(clock.seconds)


def evaluate_cell(matrix: Matrix, cell: Cell, engine: Engine | None = None) -> tuple[Cell, Run]:
    """Fill one cell, inline on a worker, or by an engine's chunks from here."""
    test, spec, model = matrix.test(cell), matrix.spec(cell.row), matrix.models.get(cell.row.key)
    net = spec.options.get("net")
    learner = (
        load(model.path, matrix.compute, net if own(net) else None)
        if model is not None
        else row_learner(matrix.recipe, spec, cell.row.seed, matrix.source, matrix.compute, None)
    )
    run = evaluate(
        learner,
        test.build(matrix.source, "test"),
        matrix.tasks or test.tasks,
        test.seed,
        repeats=test.repeats,
        out=matrix.place(cell, matrix.out) if matrix.out else None,
        engine=engine or "inline",
        cache=matrix.cache,
        answers=matrix.answers,
    )
    return cell, run


def fill(matrix: Matrix, engine: Engine, out: Path | None, say: Callable[[str], None]) -> Iterator[tuple[Cell, Run]]:
    """Every cell of the table, in the order in which they are done."""
    rows = matrix.rows()
    cells = [cell for row in rows for cell in matrix.cells(row)]
    check(matrix, cells)
    with tempfile.TemporaryDirectory(prefix="handful-") as scratch:
        store = out or Path(scratch)
        to_train = []
        for row in rows:
            spec = matrix.spec(row)
            if spec.model:
                matrix.models[row.key] = Folder(Path(spec.model))
            elif trains(matrix, row):
                matrix.models[row.key] = Folder(store / "models" / row.key)
                if not (store / "models" / row.key / FACTS).is_file():
                    to_train.append(row)
        say(f"{len(to_train)} trainings and {len(cells)} evaluations, {engine.workers} at a time")
        with bar("filling the table", len(to_train) + len(cells)) as advance:
            shared = dataclasses.replace(matrix, out=store if engine.local else None, models={})
            for row, files, seconds in engine.map(train_row, shared, to_train):
                if files:
                    with fresh_folder(store / "models" / row.key, force=True) as folder:
                        for name, data in files.items():
                            (folder / name).write_bytes(data)
                if not engine.here:
                    add(seconds)
                advance(1)
            done: Iterator[tuple[Cell, Run]]
            whole = len(cells) >= engine.workers and not engine.here
            if whole:
                shared = dataclasses.replace(matrix, out=out if engine.local else None)
                done = engine.map(evaluate_cell, shared, cells)
            else:  # fewer cells than workers, or workers that share this process: each cell is cut into its chunks instead
                shared = dataclasses.replace(matrix, out=out)
                done = (evaluate_cell(shared, cell, engine) for cell in cells)
            for cell, run in done:
                if whole:
                    add({k: v for k, v in run.facts["seconds"].items() if k != "total"})
                if out is not None and run.path is None:
                    folder_of_run = RunFolder(matrix.place(cell, out), run.identity)
                    folder_of_run.finish(run.frame, run.answers, {**run.facts, "summary": run.summary().to_dicts()})
                    run = dataclasses.replace(run, path=folder_of_run.path)
                advance(1)
                yield cell, run


def trains(matrix: Matrix, row: MatrixRow) -> bool:
    spec = matrix.spec(row)
    method = configured(spec, row.seed)
    return spec.trained and not (method.trains == "no" and matrix.recipe.train is None)


def check(matrix: Matrix, cells: list[Cell]) -> None:
    """Refuse, before anything is trained, a method and a test that do not go together."""
    for cell in cells:
        rule = matrix.test(cell).build(matrix.source, "test")
        rule.check()
        if matrix.spec(cell.row).name:
            agree(configured(matrix.spec(cell.row), cell.row.seed), rule)
