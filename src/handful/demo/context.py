"""Few-shot under context shift: grounds that follow the class in training."""

from __future__ import annotations

from handful import registry
from handful.data.world import world
from handful.demo.part import DemoPart
from handful.methods import make
from handful.metrics.base import SHOWN
from handful.report import figures
from handful.report.page import Figure, Section, Table
from handful.report.summary import percent, run_table
from handful.runs import Run, evaluate
from handful.runs.learners import taught

RULES = ("iid", "ood", "ood-conflict")


def context(seed: int, steps: int) -> DemoPart:
    runs: dict[str, dict[str, Run]] = {}
    lines = []
    for strength in (0.0, 0.9):
        source = world(ground=strength, images=96, classes=100, contexts=6, seed=seed)
        rules = {n: registry.make("rules", n, {"ways": 5, "shots": 5, "queries": 5}, source.test) for n in RULES}
        method = make("protonet", schedule={"steps": steps, "seed": seed, "rate": 2e-3})
        learner = taught(method, rules["iid"], ways=10, shots=3)
        label = f"ground follows class: {strength:g}"
        runs[label] = {}
        pixels = make("nearest-centroid").untrained(source.card.shape)
        compared = {}
        for name, rule in rules.items():
            runs[label][name] = evaluate(learner, rule, n=192, seed=seed, answers=True)
            known = {"ProtoNet": runs[label][name], "pixels": evaluate(pixels, rule, n=192, seed=seed, answers=True)}
            compared[f"Under spurious correlation, {name}"] = known
        iid, conflict = (runs[label][n].estimate("accuracy") for n in ("iid", "ood-conflict"))
        lines.append(f"With strength {strength:g} in training: IID {iid}, in conflict {conflict}.")
    groups = {name: [percent(runs[label][name].estimate("accuracy")) for label in runs] for name in RULES}
    flat = {f"{label}, {name}": run for label, by in runs.items() for name, run in by.items()}
    section = Section(
        "Under spurious correlation",
        [
            "A training class's images lie mostly on one ground (grass, brick, water, ...). The test asks the same classes from the "
            "same support three ways: queries on the support's own grounds (iid), on grounds new to the task (ood), and on the "
            "grounds of another class of the task (ood-conflict).",
            *lines,
        ],
        [
            Table(
                run_table(flat, ["accuracy", "worst_context"]),
                f"ProtoNet, 5-way 5-shot; mean ± {SHOWN} half interval over tasks",
            )
        ],
        [
            Figure(
                figures.bars(list(runs), groups, chance=20.0),
                "Accuracy by rule and by how strongly the ground follows the class",
                "The gap between iid and ood-conflict is what the ground gives away.",
            )
        ],
    )
    return DemoPart(section, compared)
