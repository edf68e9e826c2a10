"""Compositional: pairs of colour and glyph never seen together."""

from __future__ import annotations

from handful.data.world import world
from handful.demo.part import DemoPart
from handful.methods import make
from handful.metrics.base import SHOWN
from handful.report import figures
from handful.report.page import Figure, Section, Table
from handful.report.summary import percent, run_table
from handful.runs import Run, evaluate
from handful.runs.learners import taught
from handful.tasks.pairs import Pairs


def pairs(seed: int, steps: int) -> DemoPart:
    source = world(label=("colour", "glyph"), mask=0.3, images=20, seed=seed)
    test = Pairs(source.test)
    schedule = {"steps": steps, "seed": seed, "rate": 2e-3}
    runs: dict[str, Run] = {}
    for label, name in (
        ("ProtoNet", "pair-protonet"),
        ("refined-ProtoNet", "refined-protonet"),
    ):
        learner = taught(make(name, schedule=schedule), test)
        runs[label] = evaluate(learner, test, n=48, seed=seed, repeats=5, answers=True)
    groups = {
        "seen pairs": [percent(r.estimate("seen")) for r in runs.values()],
        "unseen pairs": [percent(r.estimate("unseen")) for r in runs.values()],
        "harmonic mean": [percent(r.estimate("hm")) for r in runs.values()],
    }
    section = Section(
        "Pairs never seen together",
        [
            "The support shows some (colour, glyph) pairs; queries may be any pair of the task's colours and glyphs, and the learner is "
            "not told which were shown. Colours and glyphs are new to training.",
        ],
        [
            Table(
                run_table(runs, ["hm", "unseen", "seen"]),
                f"5 primitives a side, open world of 25 pairs; mean ± {SHOWN} half interval over repeats",
            )
        ],
        [Figure(figures.bars(list(runs), groups, chance=4.0), "Accuracy on seen and on unseen pairs, by method")],
    )
    return DemoPart(section, {"Pairs never seen together": runs})
