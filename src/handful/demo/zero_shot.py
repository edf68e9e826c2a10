"""Zero-shot: classes known by description alone."""

from __future__ import annotations

from handful.data.world import world
from handful.demo.described import described_features
from handful.demo.part import DemoPart
from handful.methods import make
from handful.metrics.base import SHOWN
from handful.report import figures
from handful.report.page import Figure, Section, Table
from handful.report.summary import percent, run_table
from handful.runs import Run, evaluate
from handful.runs.learners import taught
from handful.tasks.zero_shot import ZeroShot


def zero_shot(seed: int, steps: int) -> DemoPart:
    source = described_features(
        world(label=("colour", "border"), images=10, classes=24, mask=0.35, seed=seed), steps, seed
    )
    test = ZeroShot(source.test, "factors")
    runs: dict[str, Run] = {}
    for label, name in (("ConSE", "conse"), ("DeViSE", "devise"), ("ESZSL", "eszsl"), ("SYNC", "sync")):
        learner = taught(make(name, tune=False), test)
        runs[label] = evaluate(learner, test, n=test.part.n_classes, seed=seed)
    chance = 100 / test.part.n_classes
    section = Section(
        "From descriptions alone",
        [
            f"{test.part.n_classes} classes are pairs of a colour and a border that training never shows together; the learner gets each "
            "class's description (which colour, which border) and no image. Images enter as features of a small network trained to "
            "tell the training classes apart.",
        ],
        [Table(run_table(runs, ["top1", "top5"]), f"mean ± {SHOWN} half interval over classes")],
        [
            Figure(
                figures.bars(
                    list(runs), {"top 1": [percent(r.estimate("top1")) for r in runs.values()]}, chance=chance
                ),
                "Zero-shot accuracy by method, with chance",
            )
        ],
    )
    return DemoPart(section, {"From descriptions alone": runs})
