"""Does a benchmark need its labels? The class semantics consistency criterion, trained and with frozen features."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from handful import registry
from handful.audits.answers import TaskAnswers, answer
from handful.audits.context import TRAIN_EACH, Context, fewer, usual_tasks
from handful.audits.drawing import across
from handful.audits.finding import Diagnosis, Finding, Light
from handful.data.collection import Collection, Part
from handful.errors import Infeasible, Mismatch
from handful.methods.clustering.centroid import CentroidNet
from handful.methods.contract import Learner
from handful.methods.metric.nearest_centroid import NearestCentroid
from handful.methods.metric.protonet import ProtoNet
from handful.methods.schedule import Schedule
from handful.metrics.base import Estimate, mean_interval
from handful.metrics.crossed import SAME, crossed_ratio
from handful.metrics.cscc import cscc, quadrature
from handful.nets.compute import Compute
from handful.options import parse_spec
from handful.runs.evaluate import evaluate
from handful.runs.learners import learner_of
from handful.tasks.clustering import Clustering
from handful.tasks.nway import NWay
from handful.tasks.rule import Rule

LADDER = (25, 50, 100, 200, 400, 800, 1600, 3200, 6400)
HIGH, LOW = 0.9, 0.7
ENOUGH = 100
"""Training tasks below which the trained form is not judged."""
THRESHOLD = f"above {HIGH}: labels hardly needed; below {LOW}: needed"


@dataclass(frozen=True)
class Consistency:
    """CSCC with both of its accuracies, on the same tasks.

    ``value`` has the paired bootstrap's interval over tasks and ``over_classes`` that over classes; ``independent`` is the half
    interval of the paper's quadrature.
    """

    value: Estimate
    independent: float
    unsupervised: Estimate
    supervised: Estimate
    over_classes: Estimate | None = None

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
    return Consistency(cscc(a, b, seed=seed), independent, u, s, over_classes(rule, a, b, n, seed))


def over_classes(rule: Rule, a: np.ndarray, b: np.ndarray, n: int, seed: int) -> Estimate | None:
    """The ratio's interval for new classes, from the two accuracies of each task and the classes that it has."""
    task, names = [], []
    for episode in rule.draw_block(seed, 0, n):
        task.append(np.full(len(episode.names[0]), episode.number))
        names.append(np.asarray(episode.names[0], dtype=str))
    number, labels = np.concatenate(task), np.unique(np.concatenate(names), return_inverse=True)[1]
    return crossed_ratio(a[number], b[number], number, labels.reshape(-1), seed=seed)


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
    unsupervised = learner_of(method, train=train, compute=compute)
    supervised = learner_of(ProtoNet(net=net, schedule=schedule), train=train, compute=compute)
    scores = {}
    for choice in (method, method.with_options(relative=True, gamma=RELATIVE_GAMMA)):
        unsupervised.method = choice
        run = evaluate(unsupervised, Clustering(of=train), n=128, seed=seed + 1)
        scores[choice] = run.estimate("unsupervised").value
    unsupervised.method = max(scores, key=lambda m: scores[m])
    return consistency(unsupervised, supervised, test, n=n, seed=seed)


RELATIVE_GAMMA = 0.05


def pooled(part: Part, pool: Part) -> Part:
    """The images of a part that a pool holds."""
    return Part(part.collection, part.scheme, f"{part.split}[pool]", np.intersect1d(part.rows, pool.rows))


class TrainedCSCC(Diagnosis):
    """CSCC of a collection's train and test split."""

    name: ClassVar[str] = "cscc"
    question: ClassVar[str] = "Does the benchmark need its labels?"
    topic: ClassVar[str] = "labels"
    cost: ClassVar[float] = 3.0

    def missing(self, collection: Collection) -> str:
        for split in ("train", "test"):
            if not collection.has(split):
                return f"the collection has no {split} split; make one with: handful data split"
        return ""

    def run(self, context: Context) -> list[Finding]:
        net, how, (train, test) = context.net, "", self.tasks(context)
        if train.part.collection is context.view:
            # A frozen net cannot be trained in minutes: a small one that begins as its features can.
            net, how = "mlp:out=0", f" on {context.net}"
        elif net == "pixels":
            net = "conv4" if context.images else "mlp"
        steps = affordable(train, net, context.seconds)
        n = 400 if context.seconds > 60 else 200
        found = trained_consistency(train, test, net=net, steps=steps, n=n, seed=context.seed)
        said = f"{parse_spec(net)[0]}{how}, {steps} training tasks"
        return [finding("cscc", found, test, said, {"net": net + how, "steps": steps})]

    def tasks(self, context: Context) -> tuple[NWay, NWay]:
        """Training and test tasks, of frozen features where the net is one that is not trained here."""
        collection = context.collection
        test, train = collection.test, collection.train
        if context.features is not None or registry.get("nets", parse_spec(context.net)[0]).frozen:
            if set(test.class_names) & set(train.class_names):
                raise Infeasible(
                    "the training classes are not apart from the test classes; training would tell nothing"
                )
            own = context.whole_part.split == "test"
            # Only images of the pool where it holds both splits: others would have to be embedded beyond the budget.
            test = context.view.like(context.part if own else pooled(test, context.part))
            apart = context.train if own else pooled(train, context.part)
            if apart is None:
                apart = fewer(train, len(context.part) // 2, context.seed, TRAIN_EACH)
            train = context.view.like(apart)
            context.view.read(np.concatenate([train.rows, test.rows]))  # in whole batches, not a task at a time
        asked = usual_tasks(test)
        return usual_tasks(train, asked.shots, 5), asked


class FrozenCSCC(Diagnosis):
    """The quick form on features that are not trained for it."""

    name: ClassVar[str] = "cscc-frozen"
    question: ClassVar[str] = "Do frozen features need the labels?"
    topic: ClassVar[str] = "labels"

    def run(self, context: Context) -> list[Finding]:
        test, seed = context.tasks(), context.seed
        n, without = unlabelled(context)
        with_labels = answer(NearestCentroid(), test, n, seed)
        a, b = without.tasks, with_labels.tasks
        u, s = mean_interval(a), mean_interval(b)
        independent = quadrature(u.value, u.half, s.value, s.half)[1] if u.value > 0 and s.value > 0 else float("nan")
        over_classes = crossed_ratio(
            without.right, with_labels.right, without.task, without.classes, without.image, seed=seed
        )
        found = Consistency(cscc(a, b, seed=seed), independent, u, s, over_classes)
        return [finding("cscc-frozen", found, test, f"frozen {context.net}", {"net": context.net, "tasks": n})]


def unlabelled(context: Context) -> tuple[int, TaskAnswers]:
    """How the audit's tasks are answered by clustering the support of frozen features, found once an audit."""
    if "unlabelled" not in context.kept:
        rule = Clustering(of=context.tasks())
        method = CentroidNet(net="pixels", relative=True, gamma=RELATIVE_GAMMA, eval_conditional="sinkhorn", starts=4)
        context.kept["unlabelled"] = context.paced(lambda n: answer(method, rule, n, context.seed))
    return context.kept["unlabelled"]


def affordable(train: Rule, net: str, seconds: float) -> int:
    """The largest training of a fixed ladder that two methods can have in the time; few rungs, so that runs agree."""
    probe = CentroidNet(net=net, schedule=Schedule(steps=2, select="last"))
    learner_of(probe, train=train)
    start = time.monotonic()
    learner_of(probe, train=train)
    each = (time.monotonic() - start) / 2
    return max([steps for steps in LADDER if 2 * steps * each < 0.7 * seconds], default=LADDER[0])


def finding(name: str, c: Consistency, rule: Any, how: str, facts: dict[str, Any]) -> Finding:
    value, chance, threshold = c.value, 1 / rule.ways, THRESHOLD
    light: Light = "red" if value.value > HIGH else "green" if value.value < LOW else "amber"
    verdict = {"red": "labels are hardly needed", "green": "labels are needed", "amber": "labels help"}[light]
    if facts.get("steps", ENOUGH) < ENOUGH:
        light, verdict = (
            "grey",
            f"not judged, since the time allowed {facts['steps']} training tasks and {ENOUGH} are wanted",
        )
        threshold += f"; judged from {ENOUGH} training tasks on"
    elif c.supervised.low <= chance or chance > HIGH * c.supervised.value:
        light, verdict = "grey", "not judged, since the accuracy with labels is hardly better than guessing"
    sentence = (
        f"{'CSCC' if name == 'cscc' else 'CSCC of frozen features'} {value.value:.2f}: {verdict}; accuracy "
        f"{100 * c.unsupervised.value:.1f}% without and {100 * c.supervised.value:.1f}% with labels, "
        f"{rule.ways}-way {rule.shots}-shot, {how}"
    )
    alt = (
        f"Two bars: accuracy {100 * c.supervised.value:.1f}% with labels, {100 * c.unsupervised.value:.1f}% without; "
        f"guessing {100 * chance:.0f}%."
    )
    shape = {"ways": rule.ways, "shots": rule.shots, "queries": rule.queries, "chance": chance}
    figure = across({"with labels": c.supervised, "without labels": c.unsupervised}, chance)
    return Finding(
        name, sentence, value.value, value.low, value.high, SAME, threshold, light, figure,
        {**c.as_dict(), **facts, **shape}, alt=alt, over_classes=c.over_classes,
    )  # fmt: skip
