"""Runs of three cheap methods on a small collection whose names try to break out of a page."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from handful.cli import main
from handful.data.collection import Collection
from handful.methods import make
from handful.runs import Run, evaluate
from handful.tasks import AnyWay
from made.patterns import blobs

EVIL = "<img src=x onerror=alert(1)>"


def hostile(seed: int = 0) -> Collection:
    plain = blobs(n_classes=16, each=14, noise=300.0, seed=seed)
    kind = "<img src=x onerror=alert(1)>&_$" + pl.col("kind")
    named = plain.table.with_columns(kind=kind, context="$\\evil{" + pl.col("context") + "|<i>")
    return Collection(dataclasses.replace(plain.card, name="blobs"), named, plain.array)


@pytest.fixture(scope="session")
def source(tmp_path_factory) -> Collection:
    return hostile().save(tmp_path_factory.mktemp("report") / "blobs")


METHODS = {"nearest-centroid": {}, "k-nn": {"net": "pixels"}, "linear": {"net": "pixels"}}


def run(source: Collection, method: str, out: Path | None = None, n: int = 40, seed: int = 0, **more) -> Run:
    learner = make(method, **METHODS[method]).untrained(source.card.shape)
    return evaluate(learner, AnyWay(source.test, (2, 4), (1, 3), 4), n=n, seed=seed, out=out, **more)


@pytest.fixture(scope="session")
def folders(source, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    for method in METHODS:
        run(source, method, root / method, answers=True)
    return root


def call(capsys, *arguments: str) -> tuple[int, str, str]:
    code = 0
    try:
        main(list(arguments))
    except SystemExit as end:
        code = int(end.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def planted(base: Run, **changes: np.ndarray) -> dict[str, Run]:
    """Runs on the same tasks with given accuracies."""
    return {
        name: dataclasses.replace(base, frame=base.frame.with_columns(accuracy=pl.Series(values)), path=None)
        for name, values in changes.items()
    }


@pytest.fixture(scope="session")
def base(folders) -> Run:
    return Run.open(folders / "nearest-centroid")
