"""Nodes of a Ray cluster that die and come at random while it works."""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

STORE = 80 * 1024 * 1024
TASKS = 640


@dataclass
class Chaos:
    """What was done and what came of it."""

    tasks: int
    killed: int = 0
    added: int = 0
    runs: int = 0
    equal: int = 0
    seconds: float = 0.0


def disturb(seconds: float, seed: int = 0) -> Chaos:
    """Evaluate on a cluster for so long, at least once, while its second node dies and another comes, at random moments."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    )
    import ray
    from ray.cluster_utils import Cluster

    from handful.methods import make
    from handful.runs import evaluate
    from handful.runs.ray import Ray
    from handful.tasks import AnyWay
    from made.patterns import blobs

    found, dice, stop = Chaos(TASKS), random.Random(seed), threading.Event()
    with tempfile.TemporaryDirectory(prefix="handful-chaos-") as place:
        packed = blobs(n_classes=24, each=20).save(Path(place) / "blobs")
        rule = AnyWay(packed.test, (2, 4), (1, 5), 4)
        learner = make("maml", net="conv4:filters=4", test_steps=5).untrained(packed.card.shape, 4)
        whole = evaluate(learner, rule, TASKS, 3).frame
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False},
        )
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        nodes = [cluster.add_node(num_cpus=1, object_store_memory=STORE)]

        def work() -> None:
            while not found.runs or time.monotonic() - began < seconds:
                frame = evaluate(learner, rule, TASKS, 3, engine=Ray()).frame
                found.runs += 1
                found.equal += int(frame.equals(whole))
            stop.set()

        began, failed = time.monotonic(), []
        # Ray starts nodes from the main thread only.
        thread = threading.Thread(target=_told, args=(work, failed, stop), daemon=True)
        thread.start()
        try:
            while not stop.wait(2 + 6 * dice.random()):
                if nodes:
                    cluster.remove_node(nodes.pop(), allow_graceful=False)
                    found.killed += 1
                else:
                    nodes.append(cluster.add_node(num_cpus=1, object_store_memory=STORE))
                    found.added += 1
        finally:
            found.seconds = time.monotonic() - began
            thread.join(60)
            ray.shutdown()
            cluster.shutdown()
    if failed:
        raise failed[0]
    return found


def _told(work: Callable[[], None], failed: list[BaseException], stop: threading.Event) -> None:
    try:
        work()
    except BaseException as error:
        failed.append(error)
        stop.set()
