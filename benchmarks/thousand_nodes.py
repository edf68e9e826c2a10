"""A thousand nodes, simulated: what moves, what it costs, where it breaks.

    python benchmarks/thousand_nodes.py [--write docs/scale.md] [--no-ray]

Measures on this machine what the Ray engine does once a chunk, a cell and a node (processor time; Ray's own rates by wall time on a
cluster of one node), then plays the engine's loop event by event: one driver that hands out items and takes in results one at a
time, one depot that sends files in blocks, nodes of 16 cores that import, unpack, fetch and work, and that die now and then. The
network (10 Gbit/s at each machine), the nodes' start (measured here) and their deaths (one in a thousand hours) are assumptions.
With --write the text between the two marks of that file is replaced.
"""

from __future__ import annotations

import argparse
import heapq
import pickle
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from handful.data.collection import Card, Collection, as_table
from handful.methods import make
from handful.runs import evaluate
from handful.runs.shipping import BLOCK, Depot
from handful.runs.store import RunFolder
from handful.tasks import NWay

MARKS = "<!-- simulated: begin -->", "<!-- simulated: end -->"
CORES, NETWORK, DEATHS = 16, 1.25e9, 1 / (1000 * 3600)


@dataclass(frozen=True)
class Constants:
    """Seconds and bytes of one step each."""

    start: float  # a worker process imports what it needs
    chunk: float  # 64 tasks of MAML, conv4, 32x32, five steps
    result: float  # the driver unpacks and writes a chunk's table
    result_bytes: float
    context_bytes: float  # learner and rule
    depot: float  # bytes a second that one depot reads
    submit: float = 150e-6  # Ray: hand out one item
    wait: float = 2e-6  # Ray: look at one item under way


@dataclass(frozen=True)
class Plan:
    name: str
    items: int
    seconds: float  # of one item on one core
    shipped: float  # bytes that every node needs and does not see


def took(work: Callable[[], object], times: int = 1) -> float:
    before = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - before) / times


def measure(with_ray: bool) -> Constants:
    images = np.random.default_rng(0).integers(0, 256, (2000, 32, 32, 3), dtype=np.uint8)
    table = as_table({"k": (np.arange(2000) % 20).astype(str)})
    source = Collection(Card("noise", "images", (32, 32, 3), ("k",), hash="0" * 64), table, images)
    learner, rule = make("fo-maml").untrained((32, 32, 3)), NWay(source.whole, 5, 1, 15)
    runs = []
    chunk = took(lambda: runs.append(evaluate(learner, rule, 64, engine="inline", cache=False)))
    sent = pickle.dumps(runs[0].frame)
    with tempfile.TemporaryDirectory() as scratch:
        folder = RunFolder(Path(scratch) / "run", {})
        numbers = iter(range(1000))
        result = took(lambda: folder.add(next(numbers), pickle.loads(sent)), 50)
        (Path(scratch) / "array").write_bytes(bytes(8 * BLOCK))
        depot = Depot()
        depot.offer({"k": scratch})
        read = took(lambda: [pickle.dumps(depot.read("k", "array", i * BLOCK, BLOCK)) for i in range(8)], 3)
    start = _import_seconds()
    weights = sum(t.numel() * t.element_size() for t in learner.state().values())
    found = Constants(start, chunk, result, len(sent), weights + 50e3, 8 * BLOCK / read)
    return replace(found, **_ray()) if with_ray else found


def _import_seconds() -> float:
    code = "import time; import handful.runs, handful.methods, torch; print(time.process_time())"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def _ray() -> dict[str, float]:
    """Ray's rates at the driver, on a cluster of this machine."""
    import ray

    ray.init(num_cpus=1, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    try:
        nothing = ray.remote(num_cpus=0.01)(_nothing)
        ray.get([nothing.remote(i) for i in range(20)])
        before = time.perf_counter()
        refs = [nothing.remote(i) for i in range(2000)]
        submit = (time.perf_counter() - before) / len(refs)
        ray.get(refs)
        each = []
        for n in (200, 2000):
            before = time.perf_counter()
            for _ in range(20):
                ray.wait(refs[:n], num_returns=1)
            each.append((time.perf_counter() - before) / 20)
        return {"submit": submit, "wait": max(0.0, (each[1] - each[0]) / 1800)}
    finally:
        ray.shutdown()


def _nothing(i: int) -> int:
    return i


def simulate(plan: Plan, nodes: int, c: Constants, singly: bool = False) -> dict[str, float]:
    """Seconds until the last result is written, and where they went; ``singly``: if the driver took in one result a look."""
    rng = random.Random(0)
    sent = (plan.shipped + c.context_bytes) / min(c.depot, NETWORK)  # one sender, one node after another
    ready = [((k + 1) * sent + c.start) for k in range(nodes)]
    free = [(ready[w % nodes], w) for w in range(nodes * CORES)]
    heapq.heapify(free)
    under_way: list[tuple[float, int]] = []  # when a result is there
    most, left, clock, busy, lost, done = 2 * nodes * CORES, plan.items, 0.0, 0.0, 0, 0
    while done < plan.items:
        while left and len(under_way) < most:
            clock += c.submit
            busy += c.submit
            begin, worker = heapq.heappop(free)
            length = plan.seconds * rng.uniform(0.8, 1.25)
            end = max(begin, clock) + length
            if rng.random() < length * DEATHS:  # a node dies at work: what it did is lost, another begins anew
                lost += 1
                end += length + c.start
            heapq.heappush(free, (end, worker))
            heapq.heappush(under_way, (end, worker))
            left -= 1
        clock = max(clock, under_way[0][0])
        cost = (1 if singly else 2) * c.wait * len(under_way)
        while under_way and under_way[0][0] <= clock:
            heapq.heappop(under_way)
            done += 1
            cost += c.result + c.result_bytes / NETWORK
            if singly:
                break
        clock += cost
        busy += cost
    ideal = plan.items * plan.seconds / (nodes * CORES)
    return {
        "seconds": clock,
        "ideal": ideal,
        "driver": busy / clock,
        "last node ready": ready[-1],
        "sent": nodes * (plan.shipped + c.context_bytes),
        "lost": lost,
    }


def told(seconds: float) -> str:
    return (
        f"{seconds:,.0f} s"
        if seconds < 600
        else f"{seconds / 60:,.0f} min"
        if seconds < 36_000
        else f"{seconds / 3600:,.0f} h"
    )


def report(c: Constants) -> str:
    plans = [
        Plan("one run: MAML, 10,000 tasks, images at hand", 157, c.chunk, 0),
        Plan("one run: MAML, a million tasks, images at hand", 15_625, c.chunk, 0),
        Plan("the same, 1.5 GB of images shipped", 15_625, c.chunk, 1.5e9),
        Plan("a recipe: 500 trainings of 30 minutes", 500, 1800.0, 1.5e9),
        Plan("its 10,000 evaluations of 600 tasks", 10_000, 10 * c.chunk, 1.5e9),
    ]
    lines = [
        f"Measured here: a chunk of 64 MAML tasks {c.chunk:.1f} s, its table {c.result_bytes / 1e3:.0f} kB and {c.result * 1e3:.1f} ms of the "
        f"driver, handing out an item {c.submit * 1e6:.0f} µs, looking at one under way {c.wait * 1e6:.2f} µs, a worker's imports "
        f"{c.start:.1f} s, the depot {c.depot / 1e9:.1f} GB/s, learner and rule {c.context_bytes / 1e6:.1f} MB. Assumed: nodes of {CORES} cores, "
        f"{NETWORK * 8 / 1e9:.0f} Gbit/s, a death in 1,000 hours a node.",
        "",
        "| work | nodes | takes | of ideal speed | driver busy | last node ready | sent | lost and done again |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for plan in plans:
        for nodes in (1, 10, 100, 1000):
            s = simulate(plan, nodes, c)
            lines.append(
                f"| {plan.name} | {nodes:,} | {told(s['seconds'])} | {s['ideal'] / s['seconds']:.0%} | {s['driver']:.0%} | "
                f"{told(s['last node ready'])} | {s['sent'] / 1e9:,.1f} GB | {s['lost']} |"
            )
    asked, without = plans[1], replace(plans[2], shipped=0)
    alone, depot = simulate(asked, 1000, c, singly=True), plans[2].shipped / min(c.depot, NETWORK)
    handled = 1 / (c.submit + c.result + c.result_bytes / NETWORK)
    lines += [
        "",
        "**Where it breaks**, in this order:",
        "",
        f"1. *Too few pieces.* A run of 10,000 tasks has 157 chunks and a recipe of 100 methods and 5 seeds 500 trainings: beyond "
        f"{157 // CORES + 1} and {500 // CORES + 1} nodes the rest wait. Nothing here cuts a chunk or a training further.",
        f"2. *One sender.* The depot is one process on the sender's machine: 1.5 GB takes {depot:.1f} s a node, so the thousandth has it after "
        f"{told(1000 * depot)}; at 100 nodes a million tasks take {simulate(plans[2], 100, c)['seconds'] / simulate(without, 100, c)['seconds']:.1f} "
        "times as long as with the images at hand. From a hundred nodes on, lay the collection where every node sees it under the same path.",
        f"3. *One driver.* It hands out and takes in {handled:,.0f} chunks a second at most, which keeps {handled * c.chunk:,.0f} cores busy with chunks of "
        f"{c.chunk:.0f} s, but only {handled:,.0f} with chunks of one second (closed-form heads: evaluate those on one machine). It looks at "
        f"all that is under way to find what is done, and takes in all of it at once; one a look, as before, the million tasks on 1,000 nodes "
        f"would take {told(alone['seconds'])} instead of {told(simulate(asked, 1000, c)['seconds'])}.",
        f"4. *Deaths.* At one in 1,000 hours a node, 1,000 nodes lose one an hour: a chunk of {c.chunk:.0f} s each time, which costs nothing; a training "
        "on Ray starts again from its first step, since its checkpoints lie on the node that died. The driver's own death ends the "
        "run; the same command goes on from the chunks that were written.",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--no-ray", action="store_true")
    options = parser.parse_args()
    body = report(measure(not options.no_ray))
    print(body)
    if options.write:
        text = options.write.read_text(encoding="utf-8")
        head, _, rest = text.partition(MARKS[0])
        options.write.write_text(f"{head}{MARKS[0]}\n{body}\n{MARKS[1]}{rest.partition(MARKS[1])[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
