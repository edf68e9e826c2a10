"""Beyond accuracy: strangers, wrong labels, unequal and confusable classes, and whether probabilities can be believed."""

from __future__ import annotations

from handful.data.world import world
from handful.demo.part import DemoPart
from handful.methods.contract import load, model_folder
from handful.metrics.base import SHOWN
from handful.metrics.calibration import reliability
from handful.report import figures
from handful.report.page import Figure, Section, Table
from handful.report.robustness import STRAINS, reliability_figure
from handful.report.summary import Points, point, run_table
from handful.runs import Run, evaluate
from handful.tasks import Hard, LongTail, Noisy, NWay, Strangers
from handful.tasks.rule import Rule

MODELS = {"ProtoNet": "cifar-fs/protonet", "R2D2": "cifar-fs/r2d2", "RFS-simple": "cifar-fs/rfs-simple"}
TASKS = 64
SCORE = "auroc/energy"


def beyond(seed: int, steps: int) -> DemoPart:
    """Three models that come with the library, trained on photographs and asked about glyphs; nothing is trained here."""
    part = world(size=32, images=40, seed=seed).test
    few, many = NWay(part, 5, 5, 10), NWay(part, 5, 20, 10)
    learners = {label: load(model_folder(name)) for label, name in MODELS.items()}
    strains: dict[str, dict[float, Rule]] = {
        "noise": {x: Noisy(of=few, noise=x) for x in (0.0, 0.2, 0.4)},
        "ratio": {x: LongTail(of=many, ratio=x) for x in (1.0, 5.0, 20.0)},
        "difficulty": {x: Hard(part, 5, 5, 10, difficulty=x) for x in (0.0, 0.5, 1.0)},
    }
    runs: dict[str, dict[str, Run]] = {}
    lines: dict[str, dict[str, Points]] = {}
    for what, rules in strains.items():
        for x, rule in rules.items():
            asked = runs.setdefault(f"Beyond accuracy: {STRAINS[what]} {x:g}", {})
            for label, learner in learners.items():
                asked[label] = evaluate(learner, rule, n=TASKS, seed=seed)
                lines.setdefault(what, {}).setdefault(label, []).append(point(x, asked[label].estimate("accuracy")))
    strangers = {k: evaluate(v, Strangers(of=few), n=TASKS, seed=seed) for k, v in learners.items()}
    sure = {k: evaluate(v, few, n=TASKS, seed=seed, metrics="calibration") for k, v in learners.items()}
    runs["Beyond accuracy: probabilities"] = sure
    accepted = {k: [(100 * r.estimate(SCORE).value, 100 * r.estimate(SCORE).half)] for k, r in strangers.items()}
    section = Section(
        "Beyond accuracy",
        [
            "Three models that come with the library were trained on photographs and are asked about glyphs. Can they tell a query of "
            "none of the task's classes (a stranger) from the others? What do wrong labels, unequal numbers of examples and "
            "classes that look alike cost? Can their probabilities be believed?"
        ],
        [
            Table(
                run_table(sure, ["ece", "brier", "nll"]),
                f"How far probabilities are from the shares that are right; {part.id}, seed {seed}",
            )
        ],
        [
            Figure(
                figures.bars(
                    list(accepted), {"AUROC": [v[0] for v in accepted.values()]}, "AUROC of the energy (%)", 50.0
                ),
                "How well each method tells strangers from queries of its classes",
                f"A query of a known class has the higher score in so many of 100 cases; 50 is guessing. Half the queries are strangers; {SHOWN} intervals.",
            ),
            *(
                Figure(
                    figures.curves(by, STRAINS[what]),
                    f"Accuracy over the {STRAINS[what]}",
                    f"Accuracy over the {STRAINS[what]}.",
                )
                for what, by in lines.items()
            ),
            reliability_figure({k: reliability(r.frame).sum(0) for k, r in sure.items()}),
        ],
    )
    return DemoPart(section, runs)
