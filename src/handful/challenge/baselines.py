"""The six baselines of Cross-Domain MetaDL as configured learners of the library (Tables 1-4, section 4.2)."""

from __future__ import annotations

from typing import Any

from handful.errors import BadInput, nearest
from handful.methods.contract import Method, make

# The paper validates every 5,000 training tasks (or batches) on 300 tasks and keeps the best; within a domain every 750
# on 100. A step of FO-MAML is a meta-batch of two tasks, so that its counts are halved.
_ACROSS = {"steps": 30_000, "every": 5_000, "valid": 300, "seconds": 3.5 * 3600}
_WITHIN = {"steps": 4_290, "every": 750, "valid": 100, "seconds": 1800.0}
NAMES = ("train-from-scratch", "fine-tuning", "matchingnet", "protonet", "fo-maml", "metadelta++")
VALIDATION_DATASETS = 3


def baseline(
    name: str, *, net: str = "resnet18", pretrained: bool = False, within_domain: bool = False, **options: Any
) -> tuple[Method, dict[str, Any]]:
    """A baseline with the paper's hyper-parameters, and the tasks and held-out data sets it trains and validates with.

    ``net`` is ``resnet18`` from random weights, or ``resnet18:weights=FILE`` for the free-style league; ``pretrained`` says
    that its weights will come with the archive. ``options`` change anything else (``schedule.steps=100``).
    """
    if name not in NAMES:
        raise BadInput(f"there is no baseline named {name!r}; {nearest(name, NAMES)}")
    size: dict[str, Any] = _WITHIN if within_domain else _ACROSS
    each = 2 if name == "fo-maml" else 1
    schedule: dict[str, Any] = {
        "schedule.steps": size["steps"] // each,
        "schedule.validate_every": size["every"] // each,
        "schedule.validate_tasks": size["valid"],
        "schedule.rate": 0.001,
    }
    chosen: dict[str, Any] = {"net": net}
    if name == "train-from-scratch":
        chosen |= {"steps": 100, "rate": 0.001, "task_batch": 4}
    elif name == "fine-tuning":
        chosen |= {**schedule, "schedule.batch": 16, "steps": 100, "rate": 0.001, "task_batch": 4}
    elif name in ("matchingnet", "protonet"):
        chosen |= {**schedule, "schedule.tasks": 1}
    elif name == "fo-maml":
        chosen |= {**schedule, "schedule.tasks": 2, "inner_rate": 0.01, "inner_steps": 5, "test_steps": 5}
    else:
        # Every 50 batches on 50 tasks; gradients are added over ten batches per step.
        chosen |= {"seconds": size["seconds"], "schedule.batch": 64, "schedule.accumulate": 10}
        chosen |= {"schedule.validate_every": 5, "schedule.validate_tasks": 50}
        if pretrained or ":weights=" in net:
            chosen |= {"backbone_rate": 1e-4, "frozen": ("conv1", "bn1", "layer1", "layer2")}
    tasks: dict[str, Any] = {"train": {"ways": 5, "shots": 10, "queries": 20}}
    tasks["valid"] = {"ways": 5, "shots": 5, "queries": 5 if name == "metadelta++" else 20}
    tasks["validation_datasets"] = 0 if within_domain else VALIDATION_DATASETS
    return make(name, **{**chosen, **options}), tasks
