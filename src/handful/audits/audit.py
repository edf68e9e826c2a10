"""audit: every diagnosis that a collection allows, within the given minutes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from handful import registry
from handful._version import __version__
from handful.audits.context import Context, features_of
from handful.audits.finding import TOPICS, Diagnosis, Finding, first_clause
from handful.audits.learners import check_method
from handful.data.collection import Collection, Part
from handful.errors import BadInput, HandfulError, Infeasible
from handful.frames import write_frame
from handful.methods.contract import Learner, Method
from handful.nets.compute import Compute
from handful.progress import bar
from handful.report.audit_page import FindingCard, audit_page
from handful.report.page import write_page
from handful.tasks.rule import Rule

LEAST = 0.5
"""Seconds below which a diagnosis is not begun."""
PRUDENCE = 0.85
"""Share of the time that is given out: what takes longer than it seemed is paid from the rest."""


@dataclass
class Audit:
    """Findings on one collection, and why other diagnoses were not run.

    Attributes
    ----------
    findings
        In the order of the page.
    left_out
        By diagnosis: what the collection or the time lacked.
    notes
        How tasks were drawn and images seen.
    seconds
        By diagnosis.
    """

    collection: Collection
    seed: int
    net: str
    findings: list[Finding] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    minutes: float = 5.0

    @property
    def verdict(self) -> str:
        """One paragraph: what to say beside a score on this collection."""
        by = {light: [f for f in self.findings if f.light == light] for light in ("red", "amber", "green", "grey")}
        name = self.collection.card.name
        if not self.findings:
            return f"Nothing could be said of {name}: no diagnosis was run."
        counted = f"{some(by['red'], 'warning')}, {some(by['amber'], 'note')}, {some(by['green'], 'finding')} in order"
        if by["grey"]:
            counted += f", {len(by['grey'])} not judged"
        if by["red"]:
            said = " ".join(f"{first_clause(f.sentence)}." for f in by["red"][:3])
            return f"A score on {name} needs warnings beside it ({counted}). {said}"
        if by["amber"]:
            said = " ".join(f"{first_clause(f.sentence)}." for f in by["amber"][:2])
            return f"A score on {name} can be read with {some(by['amber'], 'note')} ({counted}). {said}"
        return f"Nothing was found against a score on {name} ({counted})."

    @property
    def frame(self) -> pl.DataFrame:
        """One row a finding."""
        rows = []
        for f in self.findings:
            over_classes = f.over_classes
            rows.append(
                {
                    "topic": topic_of(f.diagnosis),
                    "diagnosis": f.diagnosis,
                    "name": f.name or f.diagnosis,
                    "light": f.light,
                    "value": float(f.value),
                    "low": float(f.low),
                    "high": float(f.high),
                    "over": f.over,
                    "classes_low": over_classes.low if over_classes else None,
                    "classes_high": over_classes.high if over_classes else None,
                    "classes_over": over_classes.over if over_classes else None,
                    "threshold": f.threshold,
                    "sentence": f.sentence,
                }
            )
        return pl.DataFrame(rows, schema=SCHEMA)

    def as_dict(self) -> dict[str, Any]:
        return {
            "collection": self.collection.id,
            "verdict": self.verdict,
            "seed": self.seed,
            "net": self.net,
            "minutes": self.minutes,
            "notes": self.notes,
            "findings": [
                {"topic": topic_of(f.diagnosis), "question": question_of(f.diagnosis), **f.as_dict()}
                for f in self.findings
            ],
            "left_out": self.left_out,
            "seconds": self.seconds,
            "version": __version__,
        }

    def html(self) -> str:
        """The page."""
        topics: dict[str, list[FindingCard]] = {question: [] for question in TOPICS.values()}
        for f in self.findings:
            intervals = [(f.low, f.high, f.over)]
            if f.over_classes is not None and np.isfinite(f.over_classes.low):
                intervals.append(
                    (f.over_classes.low, f.over_classes.high, OVER.get(f.over_classes.over, f.over_classes.over))
                )
            card = FindingCard(
                question_of(f.diagnosis) + TITLES.get(f.name, ""),
                f.light,
                f.sentence,
                first_clause(f.sentence),
                f.value,
                tuple(intervals),
                f.threshold,
                own_ids(f.figure, f.name or f.diagnosis),
                f.alt or f.sentence,
                f.as_dict()["details"],
                f.name or f.diagnosis,
            )
            topics[TOPICS.get(topic_of(f.diagnosis), TOPICS["clean"])].append(card)
        spent = sum(self.seconds.values())
        foot = (
            f"handful {__version__}, {self.collection.id}, net {self.net}, seed {self.seed}, {spent:.0f} of "
            f"{60 * self.minutes:.0f} seconds."
        )
        questions = {f"{question_of(n)} ({n})": why.rstrip(".") for n, why in self.left_out.items()}
        return audit_page(f"Audit of {self.collection.card.name}", self.verdict, self.notes, topics, questions, foot)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page; with a name that ends in .json or .csv, the same facts so."""
        from handful.files import write_atomically

        place = Path(path)
        if place.suffix == ".json":
            import json

            text = json.dumps(self.as_dict(), indent=1, ensure_ascii=False) + "\n"
            write_atomically(place, lambda t: t.write_text(text, encoding="utf-8"))
        elif place.suffix == ".csv":
            write_atomically(place, lambda t: write_frame(self.frame, t, "csv"))
        elif place.suffix in (".html", ".htm"):
            write_page(place, self.html())
        else:
            raise BadInput(f"{place}: an audit is saved as .html, .json or .csv; name the file so")
        return place

    def _repr_html_(self) -> str:
        return self.frame.select("topic", "name", "light", "value", "low", "high", "sentence")._repr_html_()

    def __str__(self) -> str:
        marks = {"green": "ok  ", "amber": "note", "red": "WARN", "grey": "info"}
        lines = [f"audit of {self.collection.id} ({self.net}, seed {self.seed})", self.verdict]
        lines += [f"  [{marks[f.light]}] {f.name or f.diagnosis}: {f.sentence} ({f.threshold})" for f in self.findings]
        lines += [f"  [    ] {name}: not run: {why}" for name, why in self.left_out.items()]
        return "\n".join(lines)


SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("topic", "diagnosis", "name", "light"), pl.String),
    **dict.fromkeys(("value", "low", "high"), pl.Float64),
    "over": pl.String,
    **dict.fromkeys(("classes_low", "classes_high"), pl.Float64),
    **dict.fromkeys(("classes_over", "threshold", "sentence"), pl.String),
}
TITLES = {"copies-across-splits": " Across splits", "copies-across-classes": " Under two classes"}
OVER = {"classes": "new classes"}


def some(things: list[Finding], noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"


def own_ids(svg: str, name: str) -> str:
    """Ids of a figure with the finding's name before them, since two findings may have drawn the same; none comes twice.

    A drawing repeats an id where it shows one picture twice; links to it lead to the first, which looks the same.
    """
    seen: dict[str, int] = {}

    def once(found: re.Match[str]) -> str:
        seen[found[1]] = seen.get(found[1], 0) + 1
        return f'id="{found[1]}' + (f'-{seen[found[1]]}"' if seen[found[1]] > 1 else '"')

    svg = re.sub(r'\bid="([^"]+)"', once, svg)
    return re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}-", svg)


def topic_of(name: str) -> str:
    return registry.get("diagnoses", name).topic


def question_of(name: str) -> str:
    return registry.get("diagnoses", name).question


def audit(
    collection: Collection,
    *,
    only: list[str] | None = None,
    net: Any = "",
    features: str | os.PathLike[str] | np.ndarray | None = None,
    seed: int = 0,
    minutes: float = 5.0,
    planned: int = 600,
    split: str = "",
    rule: str | Callable[[Part], Rule] = "",
    method: str | os.PathLike[str] | Method | Learner = "",
    compute: Compute | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Audit:
    """Walk the registry of diagnoses over a collection.

    Parameters
    ----------
    only
        These diagnoses alone.
    net
        Backbone of the frozen features; by default lite0 for images where its weights are installed, else pixels.
    features
        Features of every image instead of a net: an array, or a .npy, .npz or .h5 file, rows in the collection's order.
    minutes
        For the whole; fewer minutes, fewer images and tasks.
    planned
        Tasks that a study of this benchmark will have, for the question what they can show.
    split, rule
        Where tasks come from and by which rule (a name, or a function from a part to a rule): test (all, if it has fewer
        than five classes) and n-way by default.
    method
        Whose score is split: a method's name (trained on the train split if it trains), a model folder, a method
        or a learner. By default one that fits the tasks, on the frozen features.
    options
        Options of diagnoses, by their names, such as ``{"context-probe": {"column": "ground"}}``.
    """
    if not minutes > 0:
        raise BadInput(f"minutes must be above 0, not {minutes:g}")
    if planned < 2:
        raise BadInput(f"a comparison needs at least two planned tasks, not {planned}")
    if net and features is not None:
        raise BadInput("give a net or features, not both")
    if isinstance(features, (str, os.PathLike)):
        features = features_of(features, collection)
    budget = 60 * minutes
    if method and only and "score-split" not in only:
        raise BadInput("a method is given to split its score; add score-split to only, or leave only out")
    context = Context(
        collection, net, features, seed, budget, budget, planned, split, rule, compute or Compute(), method
    )
    result = Audit(collection, seed, context.net, minutes=minutes)
    names = list(only or registry.table("diagnoses"))
    asked: dict[str, Diagnosis] = {name: registry.make("diagnoses", name, (options or {}).get(name)) for name in names}
    if not asked:
        return result
    able = {}
    for name, diagnosis in asked.items():
        if lacking := diagnosis.missing(collection):
            if only:
                raise Infeasible(f"{name} cannot be asked of {collection.card.name}: {lacking}")
            result.left_out[name] = lacking
        else:
            able[name] = diagnosis
    with context.pinned():
        context.whole_part  # noqa: B018  a wrong split or rule is refused before anything else
        if rule:
            context.tasks()
        if method:
            check_method(context)
        found = walk(context, able, result, strict=bool(only))
        result.notes = context.said
    order = list(TOPICS)
    ranked = sorted(
        found, key=lambda n: (order.index(able[n].topic) if able[n].topic in order else len(order), names.index(n))
    )
    result.findings = [f for name in ranked for f in found[name]]
    return result


def walk(context: Context, able: dict[str, Diagnosis], result: Audit, strict: bool) -> dict[str, list[Finding]]:
    """Findings by diagnosis; the cheap ones come first, so that a short time answers most questions."""
    found: dict[str, list[Finding]] = {}
    deadline = time.monotonic() + PRUDENCE * context.budget
    waiting = sorted(able, key=lambda n: able[n].cost)
    with bar(f"auditing {context.collection.card.name}", len(waiting)) as advance:
        for i, name in enumerate(waiting):
            left = deadline - time.monotonic()
            if left <= LEAST:
                result.left_out[name] = f"the {context.budget / 60:g} minutes were used up"
                advance(1)
                continue
            costs = sum(able[n].cost for n in waiting[i:])
            context.seconds = max(LEAST, left - reserve(context)) * able[name].cost / costs
            start = time.monotonic()
            try:
                found[name] = able[name].run(context)
            except HandfulError as error:
                if strict:
                    raise
                result.left_out[name] = str(error)
            result.seconds[name] = time.monotonic() - start
            advance(1)
    return found


def reserve(context: Context) -> float:
    """Seconds that embedding the rest of the pool will take, which belong to no diagnosis."""
    if "part" not in context.__dict__ or context.rate >= 1e5:
        return 0.0
    rows = context.part.rows
    return float((context.view._place[rows] < 0).sum() / context.rate)
