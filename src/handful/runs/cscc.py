"""CSCC of two finished runs: the same tasks with and without labels (Centroid Networks, Tables 3 and 4)."""

from __future__ import annotations

import dataclasses
from typing import Any

from handful.errors import BadInput, Mismatch
from handful.metrics import Estimate
from handful.metrics.cscc import cscc
from handful.runs.run import Run


def cscc_of(unlabelled: Run, labelled: Run, column: str | None = None) -> Estimate:
    """Accuracy without labels over accuracy with them, over the same tasks, in pairs; ``column`` is the first run's."""
    asked = _tasks(unlabelled)
    rule = asked.pop("rule")
    if "of" not in rule:
        raise BadInput(
            f"the first run ({unlabelled.method}) was asked {rule['rule']} tasks, which show labels; name the run of a clustering rule first"
        )
    inner = {k: v for k, v in rule["of"].items() if k != "part"}
    other = _tasks(labelled)
    if other.pop("rule") != inner or other != asked:
        raise Mismatch(
            "the runs were asked different tasks; evaluate both on one collection with the same ways, shots, queries, seed "
            "and number of tasks"
        )
    values = [
        run.frame.sort("repeat", "task")[name].to_numpy()
        for run, name in ((unlabelled, column or unlabelled.main), (labelled, labelled.main))
    ]
    return dataclasses.replace(cscc(*values), scale=100.0)


def _tasks(run: Run) -> dict[str, Any]:
    return {key: run.identity.get(key) for key in ("collection", "part", "rule", "seed", "repeats", "n")}
