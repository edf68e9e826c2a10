"""Does a benchmark need its labels? The class semantics consistency criterion, trained and with frozen features."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from handful.audits.finding import Diagnosis, Finding, Light
from handful.data.collection import Collection, Part
from handful.errors import Infeasible, Mismatch
from handful.methods.clustering.centroid import CentroidNet
from handful.methods.contract import Learner
from handful.methods.metric.protonet import ProtoNet
from handful.methods.schedule import Schedule
from handful.metrics.base import Estimate, mean_interval
from handful.metrics.cscc import cscc, quadrature
from handful.nets.compute import Compute
from handful.runs.evaluate import evaluate
from handful.tasks.clustering import Clustering
from handful.tasks.nway import NWay
from handful.tasks.rule import Rule

LADDER = (25, 50, 100, 200, 400, 800, 1600, 3200, 6400)
HIGH, LOW = 0.9, 0.7
THRESHOLD = f"above {HIGH}: labels hardly needed; below {LOW}: needed"


@dataclass(frozen=True)
class Consistency:
    """CSCC with both of its accuracies, on the same tasks.

    ``value`` has the paired bootstrap's interval; ``independent`` is the half interval of the paper's quadrature.
    """

    value: Estimate
    independent: float
    unsupervised: Estimate
    supervised: Estimate

    def as_dict(self) -> dict[str, Any]:
        return {
            "cscc": self.value.as_dict(),
            "half_independent": self.independent,
            "unsupervised": self.unsupervised.as_dict(),
            "supervised": self.supervised.as_dict(),
        }


def consistency(
    unsupervised: Learner, supervised: Learner, rule: Rule, *, n: int = 600, seed: int = 0, sizes: bool = False
) -> Consistency:
    """CSCC of a rule's tasks (Centroid Networks, Eq. 1) from a learner that clusters and one that sees labels.

    Approximate, as the paper says: it depends on the two methods, so compare values of the same backbone and training
    only. ``sizes`` shows the cluster sizes to the one that clusters.
    """
    if isinstance(rule, Clustering):
        raise Mismatch("give CSCC the rule with labels; it hides them itself")
    a = evaluate(unsupervised, Clustering(of=rule, sizes=sizes), n=n, seed=seed).frame["unsupervised"].to_numpy()
    b = evaluate(supervised, rule, n=n, seed=seed, metrics=("accuracy",)).frame["accuracy"].to_numpy()
    u, s = mean_interval(a), mean_interval(b)
    independent = quadrature(u.value, u.half, s.value, s.half)[1] if u.value > 0 else float("nan")
    return Consistency(cscc(a, b, seed=seed), independent, u, s)


def trained_consistency(
    train: Rule,
    test: Rule,
    *,
    net: str = "conv4",
    steps: int = 400,
    tasks: int = 1,
    rate: float = 1e-3,
    n: int = 600,
    seed: int = 0,
    center: float = 1.0,
    gamma: float = 1.0,
    compute: Compute | None = None,
) -> Consistency:
    """CSCC of Centroid Networks and Prototypical Networks trained alike: same backbone, tasks, steps and seed.

    The clustering is made on the support scaled to its own spread when training was too short for the embedding to take
    gamma's scale: of the two readings the better on training tasks is kept (no test task is looked at).
    """
    schedule = Schedule(
        steps=steps, tasks=tasks, rate=rate, halve_every=max(1, -(-steps // 4)), select="last", seed=seed
    )
    method = CentroidNet(net=net, schedule=schedule, center=center, gamma=gamma, eval_conditional="sinkhorn")
    unsupervised = method.meta_fit(train, compute=compute)
    supervised = ProtoNet(net=net, schedule=schedule).meta_fit(train, compute=compute)
    scores = {}
    for choice in (method, method.with_options(relative=True, gamma=RELATIVE_GAMMA)):
        unsupervised.method = choice
        run = evaluate(unsupervised, Clustering(of=train), n=128, seed=seed + 1)
        scores[choice] = run.estimate("unsupervised").value
    unsupervised.method = max(scores, key=lambda m: scores[m])
    return consistency(unsupervised, supervised, test, n=n, seed=seed)


RELATIVE_GAMMA = 0.05


def frozen_consistency(test: Rule, *, net: str = "pixels", n: int = 600, seed: int = 0) -> Consistency:
    """The quick form, not comparable with the trained one: Sinkhorn K-means and class means on the same frozen features."""
    shape = test.image_shape
    method = CentroidNet(net=net, relative=True, gamma=RELATIVE_GAMMA, eval_conditional="sinkhorn", starts=4)
    return consistency(method.untrained(shape), ProtoNet(net=net).untrained(shape), test, n=n, seed=seed)


def usual_tasks(part: Part, shots: int = 5, queries: int = 15) -> NWay:
    """5-way 5-shot tasks, or the nearest to them that the part can serve; one shot needs no clustering and is refused."""
    sizes = np.sort(part.members.sizes)[::-1]
    ways = min(5, len(sizes))
    if ways < 2 or sizes[1] < 3:
        raise Infeasible(f"{part.id} has no two classes with three images each; CSCC needs 2 shots and a query a class")
    while ways > 2 and sizes[ways - 1] < 3:
        ways -= 1
    room = int(sizes[ways - 1])
    shots = max(2, min(shots, room * shots // (shots + queries) if room < shots + queries else shots))
    return NWay(part, ways, shots, max(1, min(queries, room - shots)))


class TrainedCSCC(Diagnosis):
    """CSCC of a collection's train and test split."""

    name: ClassVar[str] = "cscc"
    question: ClassVar[str] = "Does the benchmark need its labels?"

    def missing(self, collection: Collection) -> str:
        for split in ("train", "test"):
            if not collection.has(split):
                return f"the collection has no {split} split; make one with: handful data split"
        return ""

    def run(self, collection: Collection, *, net: str, seed: int, seconds: float) -> list[Finding]:
        if net == "pixels":
            net = "conv4" if collection.card.kind == "images" else "mlp"
        test = usual_tasks(collection.test)
        train = usual_tasks(collection.train, test.shots, 5)
        steps = affordable(train, net, seconds)
        found = trained_consistency(train, test, net=net, steps=steps, n=600 if seconds > 60 else 200, seed=seed)
        how = f"{net}, {steps} training tasks"
        return [finding("cscc", found, test, how, {"net": net, "steps": steps})]


class FrozenCSCC(Diagnosis):
    """The quick form on features that are not trained for it."""

    name: ClassVar[str] = "cscc-frozen"
    question: ClassVar[str] = "Do frozen features need the labels?"

    def run(self, collection: Collection, *, net: str, seed: int, seconds: float) -> list[Finding]:
        test = usual_tasks(collection.test if collection.has("test") else collection.whole)
        found = frozen_consistency(test, net=net, n=600 if seconds > 30 else 200, seed=seed)
        return [finding("cscc-frozen", found, test, f"frozen {net}", {"net": net})]


def affordable(train: Rule, net: str, seconds: float) -> int:
    """The largest training of a fixed ladder that two methods can have in the time; few rungs, so that runs agree."""
    probe = CentroidNet(net=net, schedule=Schedule(steps=2, select="last"))
    probe.meta_fit(train)
    start = time.monotonic()
    probe.meta_fit(train)
    each = (time.monotonic() - start) / 2
    return max([steps for steps in LADDER if 2 * steps * each < 0.7 * seconds], default=LADDER[0])


def finding(name: str, c: Consistency, rule: NWay, how: str, facts: dict[str, Any]) -> Finding:
    value = c.value
    verdict = (
        "labels are hardly needed"
        if value.value > HIGH
        else "labels are needed"
        if value.value < LOW
        else "labels help"
    )
    light: Light = "red" if value.value > HIGH else "green" if value.value < LOW else "amber"
    sentence = (
        f"{name.upper() if name == 'cscc' else 'CSCC of frozen features'} {value.value:.2f} ({value.low:.2f} to {value.high:.2f}): "
        f"{verdict}; accuracy {100 * c.unsupervised.value:.1f}% without and {100 * c.supervised.value:.1f}% with labels, "
        f"{rule.ways}-way {rule.shots}-shot, {how}"
    )
    details = {
        **c.as_dict(),
        **facts,
        "ways": rule.ways,
        "shots": rule.shots,
        "queries": rule.queries,
        "chance": 1 / rule.ways,
    }
    return Finding(
        name, sentence, value.value, value.low, value.high, "tasks", THRESHOLD, light, bars(c, rule), details
    )


def bars(c: Consistency, rule: NWay) -> str:
    """Two bars with their intervals, and a line where guessing lies."""
    rows = (("with labels", c.supervised, "#4a6fa5"), ("without labels", c.unsupervised, "#c98a2b"))
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 420 92" role="img" font-family="sans-serif" font-size="12">'
    ]
    for i, (label, e, colour) in enumerate(rows):
        y, width = 8 + 34 * i, 280 * e.value
        low, high = 110 + 280 * max(0.0, e.low), 110 + 280 * min(1.0, e.high)
        parts.append(f'<text x="104" y="{y + 16}" text-anchor="end">{label}</text>')
        parts.append(f'<rect x="110" y="{y}" width="{width:.1f}" height="24" fill="{colour}"/>')
        parts.append(f'<path d="M{low:.1f} {y + 12}H{high:.1f}" stroke="#222" stroke-width="2"/>')
        parts.append(f'<text x="{high + 5:.1f}" y="{y + 16}">{100 * e.value:.1f}%</text>')
    at = 110 + 280 / rule.ways
    parts.append(
        f'<path d="M{at:.1f} 4V72" stroke="#555" stroke-dasharray="3 3"/><text x="{at:.1f}" y="86" text-anchor="middle">guessing</text>'
    )
    return "".join([*parts, "</svg>"])
