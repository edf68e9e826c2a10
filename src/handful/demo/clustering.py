"""Without labels: Centroid Networks against K-means, and how much the labels were needed."""

from __future__ import annotations

from handful.data.world import world
from handful.demo.part import DemoPart
from handful.methods import make
from handful.metrics.base import SHOWN
from handful.metrics.cscc import cscc
from handful.report import figures
from handful.report.page import Figure, Section, Table
from handful.report.summary import percent, run_table
from handful.runs import Run, evaluate
from handful.runs.learners import taught
from handful.tasks import NWay
from handful.tasks.clustering import Clustering


def clustering(seed: int, steps: int) -> DemoPart:
    source = world(images=30, classes=160, fixed=("ground", "border", "noise"), seed=seed)
    test = NWay(source.test, 5, 5, 10)
    unlabelled = Clustering(of=test)
    schedule = {"steps": steps, "seed": seed, "rate": 2e-3}
    protonet = taught(make("protonet", schedule=schedule), test, ways=10, queries=5)
    labelled = evaluate(protonet, test, n=192, seed=seed)
    learners = {
        "K-means on pixels": taught(make("kmeans"), unlabelled),
        "K-means on ProtoNet features": make("protonet-kmeans").load(
            protonet.state(), protonet.facts(), protonet.compute, "ProtoNet"
        ),
        "Centroid Networks": taught(make("centroid", schedule=schedule), unlabelled, ways=10, queries=5),
    }
    runs: dict[str, Run] = {
        label: evaluate(learner, unlabelled, n=192, seed=seed) for label, learner in learners.items()
    }
    ratio = cscc(runs["Centroid Networks"].frame["unsupervised"].to_numpy(), labelled.frame["accuracy"].to_numpy())
    section = Section(
        "Without labels",
        [
            "The learner sees the support's images and the number of classes, no labels; its clusters are matched with classes one to "
            "one, and the queries are then classified.",
            f"ProtoNet with the labels: {labelled.estimate('accuracy')}. The class-semantics consistency (accuracy without labels over "
            f"accuracy with them) is {ratio}: where it is high, the benchmark hardly needs its labels.",
        ],
        [
            Table(
                run_table(runs, ["unsupervised", "clustering", "nmi", "ari"]),
                f"5-way 5-shot; mean ± {SHOWN} half interval over tasks",
            )
        ],
        [
            Figure(
                figures.bars(
                    [*runs, "ProtoNet, with labels"],
                    {
                        "accuracy": [
                            *[percent(r.estimate("unsupervised")) for r in runs.values()],
                            percent(labelled.estimate("accuracy")),
                        ]
                    },
                    chance=20.0,
                ),
                "Unsupervised accuracy of three methods beside ProtoNet with labels",
            )
        ],
    )
    return DemoPart(section, {"Without labels": runs})
