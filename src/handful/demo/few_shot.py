"""Few-shot, any way and any shot, on glyphs never seen in training and drawn in other media."""

from __future__ import annotations

import numpy as np

from handful.data.show import data_url, episode_sheet
from handful.data.world import world
from handful.demo.part import DemoPart
from handful.methods import make
from handful.metrics.base import SHOWN
from handful.report import figures
from handful.report.page import Figure, Section, Table
from handful.report.summary import binned, run_table
from handful.runs import Run, evaluate
from handful.runs.learners import taught
from handful.tasks import AnyWay, NWay


def few_shot(seed: int, steps: int) -> DemoPart:
    source = world(styles=6, images=40, classes=180, seed=seed)
    test = AnyWay(source.test, (2, 20), (1, 20), 20, datasets="each")
    schedule = {"steps": steps, "seed": seed, "rate": 2e-3}
    methods = {
        "pixels": make("nearest-centroid"),
        "ProtoNet": make("protonet", net="conv4", schedule=schedule),
        "MatchingNet": make("matchingnet", net="conv4", schedule=schedule),
        "Baseline++": make("baseline++", net="conv4", task_batch=0, schedule=schedule),
    }
    runs: dict[str, Run] = {}
    for label, method in methods.items():
        learner = taught(method, test, ways=10, shots=3, queries=5)
        runs[label] = evaluate(learner, test, n=192, seed=seed, answers=True)
        if label == "ProtoNet":
            shown = learner
    episode = NWay(source.test, 5, 1, 4).draw(seed, 3)
    task = test.read(episode)
    predictions = shown.fit(task.support).predict(task.query).argmax(1)
    sheet = episode_sheet(source, episode, np.asarray(predictions))
    chance = [(w, 100 / w) for w in range(2, 21)]
    best = runs["ProtoNet"].compare(runs["pixels"])
    section = Section(
        "Few-shot, any way and any shot",
        [
            "Training sees glyphs in some drawing media; the tasks ask for other glyphs in media never seen, with 2 to 20 "
            "classes and 1 to 20 images per class. Normalised accuracy is 0 for guessing and 100 for perfection.",
            f"ProtoNet against class means of raw pixels on the same {len(runs['pixels'].frame)} tasks: {best}.",
        ],
        [
            Table(
                run_table(runs, ["normalised", "accuracy"]),
                f"{test.part.id}, seed {seed}; mean ± {SHOWN} half interval over tasks",
            )
        ],
        [
            Figure(
                figures.curves({k: binned(r, "ways", "accuracy") for k, r in runs.items()}, "ways", chance=chance),
                "Accuracy falls as ways grow, for each method",
                f"Accuracy over ways (bands: {SHOWN} over tasks).",
            ),
            Figure(
                figures.curves(
                    {k: binned(r, "shots", "normalised") for k, r in runs.items()}, "shots", "normalised accuracy (%)"
                ),
                "Normalised accuracy rises with shots, for each method",
                "Normalised accuracy over shots.",
            ),
            Figure(
                data_url(sheet),
                "One task: support images by class, queries marked right or wrong",
                "One 5-way 1-shot task with ProtoNet's answers.",
            ),
        ],
    )
    return DemoPart(section, {"Few-shot, any way and any shot": runs})
