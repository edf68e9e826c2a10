"""Figures 3 to 7 of MetaCoCo for the collection at hand: IID against OOD, backbones, ways and shots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from handful import registry
from handful.data.collection import Collection, Part
from handful.errors import BadInput, Infeasible
from handful.files import write_atomically
from handful.frames import write_frame
from handful.methods.contract import FACTS, Learner, Method, load, make
from handful.metrics.base import Estimate
from handful.nets.compute import Compute
from handful.report.figures import bars, curves
from handful.runs.evaluate import evaluate
from handful.runs.learners import learner_of
from handful.runs.recipe import read_recipe
from handful.runs.store import digest
from handful.tasks.nway import NWay

EPISODES = ("iid", "ood", "ood-conflict")
METHODS = ("anil", "versa", "protonet", "r2d2", "baseline", "dn4", "baseline++", "can")
Learners = Mapping[str, Mapping[str, Learner]]


def trained(
    collection: Collection,
    methods: Sequence[str],
    nets: Sequence[str],
    steps: int | None,
    folder: Path,
    *,
    ways: int = 5,
    compute: Compute | None = None,
    seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> dict[str, dict[str, Learner]]:
    """Each method with each backbone, trained on 5-shot tasks of the train split; models in ``folder`` are not trained again.

    A method of the recipe metacoco/table6 is trained with its options there, others for 300 steps; ``steps`` overrules both.
    One that has rows of its own for so many classes (ANIL, GNN) has as many as ``ways``. With other ways than 5 only the
    methods that learn from tasks are trained, if the train split has classes enough.
    """
    compute = compute or Compute()
    known = {spec.name: spec.options for spec in read_recipe("metacoco/table6").method}

    def asked(name: str, net: str) -> Method:
        options = known.get(name, {})
        schedule = {"steps": 300, **options.get("schedule", {}), "seed": seed}
        made = make(name, **{**options, "net": net, "schedule": schedule | ({} if steps is None else {"steps": steps})})
        return made.with_options(ways=ways) if ways != 5 and hasattr(made, "ways") else made

    wanted = {(net, name): asked(name, net) for net in nets for name in methods}
    rule = NWay(collection.part("train"), ways, 5, 5)
    found: dict[str, dict[str, Learner]] = {}
    if ways != 5:
        wanted = {key: method for key, method in wanted.items() if method.trains == "tasks"}
        if wanted and len(rule.eligible()) < ways:
            say(f"{ways}-way bars are of models trained on 5 ways: {collection.id} has too few training classes")
            return found
    for (net, name), method in wanted.items():
        place = folder / digest([collection.id, name, method.options(), *([] if ways == 5 else [ways])])
        if not (place / FACTS).is_file():
            say(f"training {name}, {net}" + ("" if ways == 5 else f", {ways}-way"))
        learner_of(method, train=rule, shape=collection.card.shape, compute=compute, keep=place)
        found.setdefault(net, {})[name] = load(place, compute)
    return found


@dataclass
class Sweep:
    """Evaluates each (learner, rule, ways, shots) once and keeps every point; what cannot be drawn is left out and said."""

    part: Part
    queries: int
    tasks: int
    seed: int
    repeats: int = 1
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    known: dict[tuple[str, str, str, int, int, int], Estimate | None] = field(default_factory=dict)

    def point(
        self, backbone: str, method: str, learner: Learner, rule: str, ways: int, shots: int, trained: int = 5
    ) -> Estimate | None:
        key = (backbone, method, rule, ways, shots, trained)
        if key not in self.known:
            self.known[key] = self._measure(learner, key)
        return self.known[key]

    def _measure(self, learner: Learner, key: tuple[str, str, str, int, int, int]) -> Estimate | None:
        backbone, method, name, ways, shots, trained = key
        rule = registry.make("rules", name, {"ways": ways, "shots": shots, "queries": self.queries}, self.part)
        try:
            rule.check()
        except Infeasible as error:
            self.left_out[f"{ways}-way {shots}-shot {name}"] = str(error)
            return None
        found = evaluate(learner, rule, self.tasks, self.seed, repeats=self.repeats).estimate("accuracy")
        place = {"backbone": backbone, "method": method, "rule": name, "ways": ways, "shots": shots}
        place["trained_ways"] = trained
        self.rows.append({**place, **found.as_dict()})
        return found


def percent(found: Estimate | None) -> tuple[float, float]:
    return (float("nan"), 0.0) if found is None else (100 * found.value, 100 * found.half)


def metacoco_figures(
    learners: Learners,
    part: Part,
    folder: str | Path,
    *,
    ways: Sequence[int] = (5, 10, 15, 20),
    shots: Sequence[int] = (1, 3, 5, 7, 10),
    queries: int = 15,
    tasks: int = 600,
    seed: int = 0,
    repeats: int = 1,
    ten_way: Learners | None = None,
) -> Sweep:
    """Draw the figures as SVG files, with every point in ``figures.csv`` beside them.

    Parameters
    ----------
    learners
        By backbone, then by method: the learners to compare. Figures 3, 5 and 7 show those of the first backbone.
    part
        Where the tasks come from; figure 3 needs contexts.
    repeats
        Drawing seeds for each point, counted up from ``seed``; five in the paper's tables.
    ten_way
        Learners that were trained on ten ways, for the ten-way bars of figures 4 and 6; those of ``learners`` where one is
        missing (a method that learns from batches is the same).

    Notes
    -----
    Figure 3: iid, ood and conflicting queries with the same classes and support, at 1 and 5 shots (5 ways). Figures 4 and
    6: methods by backbone at 5 and 10 ways, 1 and 5 shots. Figures 5 and 7: sweeps over ways (at 1 and at 5 shots) and
    over shots (at 5 and at 10 ways); the paper does not say in what its two figures differ.
    """
    if not learners or not all(learners.values()):
        raise BadInput("there is nothing to draw; give at least one backbone with one learner")
    folder = Path(folder)
    sweep = Sweep(part, queries, tasks, seed, repeats)
    by_ways: dict[int, Learners] = {5: {}, 10: ten_way or {}}
    backbone, first = next(iter(learners.items()))
    drawn: dict[str, str] = {}
    for shot in (1, 5):
        groups = {
            rule: [percent(sweep.point(backbone, m, learner, rule, 5, shot)) for m, learner in first.items()]
            for rule in EPISODES
        }
        drawn[f"figure3-{shot}-shot"] = bars(list(first), groups, chance=20.0)

    def at(way: int, shot: int, net: str, method: str) -> Estimate | None:
        """A bar of figures 4 and 6, of the model that was trained on so many ways if there is one."""
        if method not in learners[net]:
            return None
        own = by_ways[way].get(net, {}).get(method)
        return sweep.point(net, method, own or learners[net][method], "n-way", way, shot, way if own else 5)

    for figure, shot in ((4, 1), (6, 5)):
        for way in (5, 10):
            groups = {net: [percent(at(way, shot, net, m)) for m in first] for net in learners}
            drawn[f"figure{figure}-{way}-way"] = bars(list(first), groups, chance=100 / way)
    for figure, shot, way in ((5, 1, 5), (7, 5, 10)):
        drawn[f"figure{figure}-ways"] = _lines(sweep, backbone, first, [(w, w, shot) for w in ways], "ways")
        drawn[f"figure{figure}-shots"] = _lines(sweep, backbone, first, [(s, way, s) for s in shots], "shots")
    for name, svg in drawn.items():
        if svg:
            write_atomically(folder / f"{name}.svg", lambda t, svg=svg: t.write_text(svg, encoding="utf-8"))  # type: ignore[misc]
    write_atomically(folder / "figures.csv", lambda t: write_frame(pl.DataFrame(sweep.rows), t, "csv"))
    return sweep


def _lines(
    sweep: Sweep, backbone: str, methods: Mapping[str, Learner], points: list[tuple[int, int, int]], label: str
) -> str:
    lines: dict[str, list[tuple[float, float, float, float]]] = {}
    for method, learner in methods.items():
        for x, way, shot in points:
            found = sweep.point(backbone, method, learner, "n-way", way, shot)
            if found is not None:
                lines.setdefault(method, []).append((x, 100 * found.value, 100 * found.low, 100 * found.high))
    if not lines:
        return ""
    chance = [(float(x), 100 / way) for x, way, _ in points]
    return curves(lines, label, chance=chance)  # type: ignore[arg-type]
