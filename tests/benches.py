"""Small benchmarks, one for each kind of task, so that the contract suite can pair every method with a rule."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

from conftest import blobs
from handful import registry
from handful.data.collection import Collection
from handful.methods.contract import Method, make
from handful.methods.schedule import Schedule
from handful.tasks import AnyWay, NWay
from handful.tasks.rule import Rule


@cache
def small() -> Collection:
    return blobs(n_classes=24, each=24)


def few_shot(split: str = "test") -> list[Rule]:
    part = small().part(split)
    return [NWay(part, 3, 2, 4), AnyWay(part, (2, 4), (1, 5), 4)]


def clustering(split: str = "test") -> list[Rule]:
    from handful.tasks.clustering import Clustering

    fixed, ranged = few_shot(split)
    return [Clustering(of=fixed), Clustering(of=ranged), Clustering(of=ranged, sizes=True)]


BENCHES: dict[str, Any] = {"few-shot": few_shot, "clustering": clustering}


def rules_for(method: Method, split: str = "test") -> list[Rule]:
    """Rules of every kind that the method can serve."""
    found = []
    for bench in BENCHES.values():
        found += [r for r in bench(split) if method.needs <= r.shows and method.axes == r.axes and suits(method, r)]
    return found


def suits(method: Method, rule: Rule) -> bool:
    """A method that clusters is asked without labels; one that learns from labels is asked with them."""
    return ("labels" in method.needs) == ("labels" in rule.shows)


def quick(name: str, **more: Any) -> Method:
    """A registered method at its smallest: few steps, small settings."""
    cls = registry.get("methods", name)
    fields = {f.name for f in dataclasses.fields(cls)}
    options: dict[str, Any] = dict(more)
    if "schedule" in fields and "schedule" not in options:
        options["schedule"] = dataclasses.asdict(dataclasses.replace(make(name).schedule, steps=2, tasks=1, batch=16))
    return make(name, **options)


def schedule_of(method: Method) -> Schedule:
    return method.schedule  # type: ignore[attr-defined, no-any-return]
